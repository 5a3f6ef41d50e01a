//! `cargo helm-tables [--check]`: lets the lab's helm answer the tables of templates and `--set` paths.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let check = std::env::args().any(|word| word == "--check");
    let helm = match petri_e2e::lab::helm(&petri_e2e::lab::Progress::new()).await {
        Ok(helm) => helm,
        Err(error) => {
            eprintln!("helm-tables: {error}");
            return ExitCode::FAILURE;
        }
    };
    let answered = match check {
        true => petri_e2e::tables::check(&helm, 1),
        false => petri_e2e::tables::write(&helm),
    };
    match answered {
        Ok(count) => {
            println!("{count} answers");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("helm-tables: {error}");
            ExitCode::FAILURE
        }
    }
}
