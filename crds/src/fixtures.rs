//! Manifests that the API server must accept or refuse, kept as files so that any test can apply them.

use std::path::PathBuf;

/// One manifest of `fixtures/`.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// File name without its ending: the rule it is about.
    pub name: String,
    /// The YAML as it is applied.
    pub manifest: String,
    /// For a refused one: what the server's message contains, from the first line `# expect: …`.
    pub expect: Option<String>,
}

/// Reads the manifests that the server must refuse, in order of name.
///
/// # Errors
/// The folder cannot be read: these are files of the source tree, for tests only.
pub fn refusals() -> std::io::Result<Vec<Fixture>> {
    read("refused")
}

/// Reads the manifests that the server must accept, in order of name.
///
/// # Errors
/// The folder cannot be read: these are files of the source tree, for tests only.
pub fn accepted() -> std::io::Result<Vec<Fixture>> {
    read("accepted")
}

fn read(folder: &str) -> std::io::Result<Vec<Fixture>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder);
    let mut fixtures = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let manifest = std::fs::read_to_string(&path)?;
        let expect = manifest.lines().next().and_then(|line| line.strip_prefix("# expect: "));
        fixtures.push(Fixture { name: name.to_owned(), expect: expect.map(str::to_owned), manifest });
    }
    fixtures.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(fixtures)
}
