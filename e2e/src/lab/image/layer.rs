//! Layers: tar files in the cache with a known digest.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::lab::LabError;
use crate::lab::cache;

/// One layer: an uncompressed tar file, so that its digest is also that of what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The tar file.
    pub path: PathBuf,
    /// SHA-256, as hexadecimal digits.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
}

impl Layer {
    /// The layer that `key` names: made by `fill` unless it is in the cache. The key must change with
    /// whatever `fill` puts in.
    pub fn cached(
        key: &str,
        fill: impl FnOnce(&mut Tree) -> Result<(), LabError>,
    ) -> Result<Layer, LabError> {
        let folder = cache::root().join("layers");
        let (path, about) = (folder.join(format!("{key}.tar")), folder.join(format!("{key}.json")));
        let known =
            || serde_json::from_slice::<Layer>(&fs::read(&about).ok()?).ok().filter(|_| path.exists());
        if let Some(layer) = known() {
            return Ok(layer);
        }
        let _lock = cache::Lock::wait(&format!("layer-{key}"))?;
        if let Some(layer) = known() {
            return Ok(layer);
        }
        let (mut digest, mut size) = (String::new(), 0);
        cache::publish::<LabError>(&path, |temporary| {
            let mut tree = Tree::new(Counted::new(BufWriter::new(File::create(temporary)?)));
            fill(&mut tree)?;
            (digest, size) = tree.finish()?;
            Ok(())
        })?;
        let layer = Layer { path, digest, size };
        let text = serde_json::to_vec(&layer).map_err(io::Error::from)?;
        cache::publish::<io::Error>(&about, |temporary| fs::write(temporary, text))?;
        Ok(layer)
    }
}

/// Contents of a layer, written entry by entry: always owned by root and of the same time, so that equal
/// contents have equal digests.
pub struct Tree {
    tar: Builder<Counted<BufWriter<File>>>,
}

impl Tree {
    fn new(out: Counted<BufWriter<File>>) -> Self {
        Tree { tar: Builder::new(out) }
    }

    /// A folder.
    pub fn folder(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(EntryType::Directory, path, mode, 0, io::empty())
    }

    /// A file with the given contents.
    pub fn file(&mut self, path: &str, mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entry(EntryType::Regular, path, mode, contents.len() as u64, contents)
    }

    /// A copy of the file `from`.
    pub fn copy(&mut self, path: &str, mode: u32, from: &Path) -> io::Result<()> {
        let file = File::open(from)?;
        let size = file.metadata()?.len();
        self.entry(EntryType::Regular, path, mode, size, file)
    }

    /// Everything below the folder `from`, in the order of names; returns the paths it took.
    pub fn copy_folder(&mut self, path: &str, from: &Path) -> io::Result<()> {
        self.folder(path, 0o755)?;
        let mut entries = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let below = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                self.copy_folder(&below, &entry.path())?;
            } else {
                self.copy(&below, 0o644, &entry.path())?;
            }
        }
        Ok(())
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let mut header = header(EntryType::Symlink, 0o777, 0);
        self.tar.append_link(&mut header, path, target)
    }

    /// An entry of another archive, with its mode and contents.
    pub fn entry_of(&mut self, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
        let path = entry.path()?.into_owned();
        let (kind, mode, size) = (entry.header().entry_type(), entry.header().mode()?, entry.size());
        let mut header = header(kind, mode, size);
        match entry.link_name()?.map(|target| target.into_owned()) {
            Some(target) if !kind.is_file() => self.tar.append_link(&mut header, path, target),
            _ => self.tar.append_data(&mut header, path, entry),
        }
    }

    fn entry(
        &mut self,
        kind: EntryType,
        path: &str,
        mode: u32,
        size: u64,
        contents: impl Read,
    ) -> io::Result<()> {
        self.tar.append_data(&mut header(kind, mode, size), path, contents)
    }

    fn finish(self) -> io::Result<(String, u64)> {
        let mut counted = self.tar.into_inner()?;
        counted.out.flush()?;
        Ok((hex(&counted.hash.finalize()), counted.size))
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Hashes and counts what passes through.
struct Counted<W> {
    out: W,
    hash: Sha256,
    size: u64,
}

impl<W> Counted<W> {
    fn new(out: W) -> Self {
        Counted { out, hash: Sha256::new(), size: 0 }
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.out.write(data)?;
        self.hash.update(&data[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Hexadecimal SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
