//! Writes the CRDs into `crds/yaml`, or into the folder given as the only argument.

use kube::ResourceExt;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("yaml"), PathBuf::from);
    std::fs::create_dir_all(&folder)?;
    for crd in petri_crds::crds() {
        let path = folder.join(format!("{}.yaml", crd.name_any()));
        std::fs::write(&path, petri_crds::yaml(&crd)?)?;
        println!("{}", path.display());
    }
    Ok(())
}
