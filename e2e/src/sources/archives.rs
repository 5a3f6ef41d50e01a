//! The archives of the chart repository: one good chart, and what no chart may be.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use tokio::process::Command;

use super::{VERSION, exemplar, file, helm, make, write};
use crate::lab::run;
use crate::petri::Error;

/// What a chart that is too large holds of zeros, in files of this size.
const LARGE: (usize, usize) = (40, 4 << 20);

/// The bad charts: name, and the files of each. A file's name stands in the archive as it stands here.
fn bad() -> Vec<(&'static str, Vec<(String, Content)>)> {
    let text = |name: &str, text: &str| (name.to_owned(), Content::Text(text.to_owned()));
    let manifest = |chart: &str| text(&format!("{chart}/Chart.yaml"), &chart_yaml(chart, ""));
    let large = (0..LARGE.0).map(|number| (format!("bomb/templates/{number}.txt"), Content::Zeros(LARGE.1)));
    vec![
        ("absolute", vec![manifest("absolute"), text("/absolute.txt", "x")]),
        ("above", vec![manifest("above"), text("above/../../above.txt", "x")]),
        ("linked", vec![manifest("linked"), ("linked/values.yaml".into(), Content::Link("/etc/passwd"))]),
        ("bomb", std::iter::once(manifest("bomb")).chain(large).collect()),
        ("no-manifest", vec![text("no-manifest/values.yaml", "a: 1\n")]),
        ("empty", Vec::new()),
        ("bad-values", vec![manifest("bad-values"), text("bad-values/values.yaml", "a: [1\nb: }\n")]),
        ("library", vec![text("library/Chart.yaml", &chart_yaml("library", "type: library\n"))]),
        ("no-version", vec![text("no-version/Chart.yaml", "apiVersion: v2\nname: no-version\n")]),
        (
            "undelivered",
            vec![text(
                "undelivered/Chart.yaml",
                &chart_yaml("undelivered", "dependencies: [{name: gone, version: 1.0.0}]\n"),
            )],
        ),
        (
            "other-cluster",
            vec![text("other-cluster/Chart.yaml", &chart_yaml("other-cluster", "kubeVersion: '>=9.0.0'\n"))],
        ),
    ]
}

enum Content {
    Text(String),
    Zeros(usize),
    Link(&'static str),
}

fn chart_yaml(name: &str, more: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: {VERSION}\n{more}")
}

/// Packs all of them in `folder` and returns them by the path they are served under, with their indexes.
pub(super) async fn all(folder: &Path, url: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    make(folder)?;
    run(helm(folder).args(["package"]).arg(exemplar("tiny")).arg("--destination").arg(folder)).await?;
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| file(path, error))
    };
    let mut files = BTreeMap::from([(format!("charts/{}", archive("tiny")), read(&archive("tiny"))?)]);
    let mut charts = vec![("tiny", archive("tiny")), ("torn", archive("torn")), ("gone", archive("gone"))];
    // A redirect to another host, with the login that helm has for this one.
    charts.push(("moved", format!("{url}/redirect/bad/{}", archive("moved"))));
    files.insert(format!("bad/{}", archive("moved")), read(&archive("tiny"))?);
    files.insert(format!("charts/{}", archive("torn")), b"this is no archive".to_vec());
    files.insert("charts/index.yaml".to_owned(), index(&charts));
    let mut names = Vec::new();
    for (name, content) in bad() {
        pack(folder, name, &content).await?;
        files.insert(format!("bad/{}", archive(name)), read(&archive(name))?);
        names.push((name, archive(name)));
    }
    files.insert("bad/index.yaml".to_owned(), index(&names));
    Ok(files)
}

fn archive(chart: &str) -> String {
    format!("{chart}-{VERSION}.tgz")
}

fn index(charts: &[(&str, String)]) -> Vec<u8> {
    let entry = |(name, url): &(&str, String)| {
        let version = json!({"apiVersion": "v2", "name": name, "version": VERSION, "urls": [url]});
        ((*name).to_owned(), json!([version]))
    };
    let entries: serde_json::Map<_, _> = charts.iter().map(entry).collect();
    json!({"apiVersion": "v1", "entries": entries}).to_string().into_bytes()
}

async fn pack(folder: &Path, name: &str, files: &[(String, Content)]) -> Result<(), Error> {
    let path = folder.join(format!("{name}-{VERSION}.tar"));
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        add(&mut archive, name, content).map_err(|error| file(&path, error))?;
    }
    let content = archive.into_inner().map_err(|error| file(&path, error))?;
    write(&path, &content)?;
    run(Command::new("gzip").args(["--no-name", "--force"]).arg(&path)).await?;
    std::fs::rename(path.with_extension("tar.gz"), path.with_extension("tgz"))
        .map_err(|error| file(path, error))
}

/// Adds a file under any name: what no archiver would write is written into the header by hand.
fn add(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &Content) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    if let Some(field) = header.as_gnu_mut().map(|header| &mut header.name) {
        field[..name.len()].copy_from_slice(name.as_bytes());
    }
    let data = match content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::Zeros(size) => vec![0; *size],
        Content::Link(to) => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name(to)?;
            Vec::new()
        }
    };
    header.set_size(data.len() as u64);
    header.set_cksum();
    archive.append(&header, data.as_slice())
}
