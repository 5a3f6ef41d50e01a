//! The action and the GitLab snippet, as far as they run without those services: their scripts, with a kubectl-petri
//! that writes down what it is told.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ci").join(name);
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A folder with a kubectl-petri that prints each argument in brackets.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("petri-ci-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let program = path.join("kubectl-petri");
        std::fs::write(&program, "#!/bin/sh\nfor one in \"$@\"; do printf '[%s]' \"$one\"; done\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn run(&self, shell: &str, script: &str, env: &BTreeMap<String, String>) -> String {
        let path = format!("{}:/usr/bin:/bin", self.0.display());
        let output = Command::new(shell)
            .args(["-c", script])
            .env_clear()
            .env("PATH", path)
            .envs(env)
            .current_dir(&self.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the action's one step with these inputs, as GitHub replaces them.
fn action(inputs: &[(&str, &str)]) -> String {
    let action = read("action.yml");
    let step = &action["runs"]["steps"][0];
    let given: BTreeMap<&str, &str> = inputs.iter().copied().collect();
    let value = |text: &str| {
        let Some(name) = text.strip_prefix("${{ inputs.").and_then(|rest| rest.strip_suffix(" }}")) else {
            return text.to_owned();
        };
        let input = &action["inputs"][name];
        assert!(!input.is_null(), "{name} is no input");
        let default = input["default"].as_str().unwrap_or_default();
        given.get(name).copied().unwrap_or(default).to_owned()
    };
    let env = step["env"].as_object().unwrap();
    let env = env.iter().map(|(name, text)| (name.clone(), value(text.as_str().unwrap()))).collect();
    let script = step["run"].as_str().unwrap();
    assert!(!script.contains("${{"), "an input that is text of the script is a hole");
    Folder::new("action").run("bash", script, &env)
}

#[test]
fn the_action_says_what_its_inputs_say() {
    let told = action(&[("name", "pr-1"), ("server", "https://petri.example.com"), ("template", "demo")]);
    assert_eq!(told, "[ci][up][pr-1][--template][demo]");
    let told = action(&[("command", "down"), ("name", "pr-1"), ("arguments", "--wait\n\n--timeout\n5m\n")]);
    assert_eq!(told, "[ci][down][pr-1][--wait][--timeout][5m]");
    let told = action(&[("name", "pr-1"), ("comment-file", "a b.md"), ("arguments", "--set\nx=a b")]);
    assert_eq!(told, "[ci][up][pr-1][--comment-file][a b.md][--set][x=a b]");
}

#[test]
fn a_branch_that_is_named_like_a_command_is_not_run() {
    let evil = "$(touch evil); `touch evil`\"'; touch evil #";
    let told = action(&[("name", evil), ("template", evil)]);
    assert_eq!(told, format!("[ci][up][{evil}][--template][{evil}]"));
}

#[test]
fn the_outputs_of_the_action_are_those_that_the_program_writes() {
    let action = read("action.yml");
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/cli/ci/report.rs");
    let report = std::fs::read_to_string(report).unwrap();
    for (name, output) in action["outputs"].as_object().unwrap() {
        assert_eq!(output["value"], format!("${{{{ steps.petri.outputs.{name} }}}}"));
        assert!(report.contains(&format!("(\"{name}\", ")), "nothing writes {name}");
    }
}

#[test]
fn the_gitlab_jobs_go_up_and_down_under_one_name() {
    let snippet = read("gitlab.yml");
    let mut env = BTreeMap::from([("CI_MERGE_REQUEST_IID".to_owned(), "17".to_owned())]);
    for (name, value) in snippet[".petri"]["variables"].as_object().unwrap() {
        env.insert(name.clone(), value.as_str().unwrap().to_owned());
    }
    let folder = Folder::new("gitlab");
    for (job, expected) in [
        ("petri-up", "[ci][up][mr-17][--template][demo][--comment-file][petri.md]"),
        ("petri-down", "[ci][down][mr-17][--wait]"),
    ] {
        assert_eq!(snippet[job]["extends"], ".petri");
        assert_eq!(folder.run("sh", snippet[job]["script"][0].as_str().unwrap(), &env), expected);
    }
    assert_eq!(snippet[".petri"]["id_tokens"]["PETRI_TOKEN"]["aud"], "petri");
    assert_eq!(snippet["petri-up"]["environment"]["on_stop"], "petri-down");
}
