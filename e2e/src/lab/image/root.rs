//! Root file systems from Debian packages: extracted, not installed, and without what no image reads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use tar::Archive;

use super::layer::{Layer, Tree};
use crate::lab::command::{command, run};
use crate::lab::progress::Progress;
use crate::lab::{LabError, blocking, cache, lock, pins};

/// Changes with what this file puts into a layer besides packages.
const RECIPE: u32 = 1;

/// Left out of every root: documentation, translations, Perl, the package manager's data, LLVM with its
/// solver, and the parts of git that serve or send mail.
const LEFT_OUT: [&str; 26] = [
    "dev/",
    "usr/share/doc/",
    "usr/share/man/",
    "usr/share/info/",
    "usr/share/locale/",
    "usr/share/i18n/",
    "usr/share/lintian/",
    "usr/share/perl",
    "usr/share/postgresql-common/",
    "usr/share/gitweb/",
    "usr/bin/perl",
    "usr/lib/x86_64-linux-gnu/perl",
    "usr/lib/x86_64-linux-gnu/libperl",
    "usr/lib/x86_64-linux-gnu/gconv/",
    "usr/lib/x86_64-linux-gnu/libLLVM",
    "usr/lib/x86_64-linux-gnu/libz3.",
    "usr/bin/scalar",
    "usr/bin/git-shell",
    "usr/lib/git-core/scalar",
    "usr/lib/git-core/git-shell",
    "usr/lib/git-core/git-imap-send",
    "usr/lib/git-core/git-daemon",
    "usr/lib/llvm",
    "usr/lib/postgresql/15/lib/bitcode/",
    "usr/lib/postgresql/15/lib/llvmjit",
    "var/",
];

/// Programs that busybox stands in for where no package brings them.
const APPLETS: &str = "awk basename cat chmod chown cp cut date dirname du echo env expr false find grep head hostname \
                       id kill ln ls mkdir mktemp mv nc printf ps pwd readlink rm rmdir sed seq sh sleep sort stat \
                       sync tail tee test timeout touch tr true uname wc which xargs";

/// A root file system.
pub struct Root {
    /// Beginning of its name in the cache.
    pub name: &'static str,
    /// Debian packages; what they depend on comes along.
    pub packages: &'static [&'static str],
    /// Users besides root and nobody: name, number, home.
    pub users: &'static [(&'static str, u32, &'static str)],
}

impl Root {
    /// Its layer, from the cache or built: some 30 s, most of it downloads.
    pub async fn layer(&self, progress: &Progress) -> Result<Layer, LabError> {
        let said = format!("{RECIPE} {:?} {:?} {LEFT_OUT:?} {APPLETS}", self.packages, self.users);
        let key =
            format!("{}-{}-{}", self.name, pins::DEBIAN_SUITE, &super::layer::sha256(said.as_bytes())[..12]);
        let folder = cache::root().join("layers");
        let known = || folder.join(format!("{key}.json")).exists();
        let extracted = folder.join(format!(".{key}.extracted.tar"));
        let _lock = if known() { None } else { Some(lock(&format!("root-{key}"), progress).await?) };
        if !known() {
            progress
                .step(format!("extracting Debian packages for the {} image (once per machine)", self.name));
            std::fs::create_dir_all(&folder)?;
            // Left by a build that was killed; the lock says that nobody writes it.
            let _ = std::fs::remove_file(&extracted);
            let include = format!("--include={}", self.packages.join(","));
            let mut bootstrap = command("mmdebstrap");
            bootstrap.args(["--quiet", "--variant=extract", &include, pins::DEBIAN_SUITE]).arg(&extracted);
            run(&mut bootstrap).await?;
        }
        let (from, users) = (extracted.clone(), self.users);
        let layer = blocking(move || Layer::cached(&key, |tree| fill(tree, &from, users))).await;
        let _ = std::fs::remove_file(&extracted);
        layer
    }
}

fn fill(tree: &mut Tree, extracted: &Path, users: &[(&str, u32, &str)]) -> Result<(), LabError> {
    let (mut authorities, mut present) = (Vec::new(), std::collections::BTreeSet::new());
    for entry in Archive::new(File::open(extracted)?).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_string();
        let left_out = LEFT_OUT.iter().any(|prefix| path.starts_with(prefix));
        let special = !matches!(entry.header().entry_type().as_byte(), b'0' | b'\0' | b'1' | b'2' | b'5');
        if path.is_empty() || left_out || special || WRITTEN.contains(&path.as_str()) {
            continue;
        }
        if path.starts_with("usr/share/ca-certificates/") && path.ends_with(".crt") {
            entry.read_to_end(&mut authorities)?;
            continue;
        }
        tree.entry_of(&mut entry)?;
        present.insert(path);
    }
    complete(tree, users, &authorities)?;
    for applet in APPLETS.split_whitespace() {
        let taken = ["bin", "usr/bin"].iter().any(|folder| present.contains(&format!("{folder}/{applet}")));
        if !taken {
            tree.link(&format!("bin/{applet}"), "busybox")?;
        }
    }
    Ok(())
}

/// Files that [`complete`] writes.
const WRITTEN: [&str; 5] =
    ["etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt", "tmp/"];

/// What maintainer scripts would have made; none ran.
fn complete(tree: &mut Tree, users: &[(&str, u32, &str)], authorities: &[u8]) -> Result<(), LabError> {
    let mut passwd =
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n".to_string();
    let mut group = "root:x:0:\nnogroup:x:65534:\n".to_string();
    for (name, number, home) in users {
        passwd.push_str(&format!("{name}:x:{number}:{number}:{name}:{home}:/bin/sh\n"));
        group.push_str(&format!("{name}:x:{number}:\n"));
    }
    tree.file("etc/passwd", 0o644, passwd.as_bytes())?;
    tree.file("etc/group", 0o644, group.as_bytes())?;
    tree.file("etc/nsswitch.conf", 0o644, b"passwd: files\ngroup: files\nhosts: files dns\n")?;
    tree.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities)?;
    tree.folder("tmp", 0o1777)?;
    tree.folder("run", 0o755)?;
    tree.folder("var/tmp", 0o1777)?;
    tree.folder("usr/local/bin", 0o755)?;
    Ok(())
}
