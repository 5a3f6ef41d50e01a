use super::*;

const SAMPLES: &str = include_str!("../testdata/helm-errors.txt");

/// Gives (stage, expected reason, text) of each sample.
fn samples() -> Vec<(Stage, FailureReason, &'static str)> {
    let sample = |part: &'static str| {
        let (head, text) = part.split_once('\n').expect("a head line");
        let (stage, reason) = head.split_once(' ').expect("stage and reason");
        let stage = match stage {
            "source" => Stage::Source,
            "release" => Stage::Release,
            "removal" => Stage::Removal,
            other => panic!("no stage {other}"),
        };
        (stage, FailureReason::from_name(reason).expect("a reason of the closed set"), text)
    };
    SAMPLES.split("### ").skip(1).map(sample).collect()
}

#[test]
fn every_real_message_finds_its_reason() {
    let samples = samples();
    assert!(samples.len() > 50, "{} samples", samples.len());
    for (stage, reason, stderr) in samples {
        let text = error_text(stderr);
        assert_eq!(classify(stage, &text), reason, "{stage:?}: {text}");
    }
}

#[test]
fn the_error_is_taken_out_of_what_surrounds_it() {
    for (_, _, stderr) in samples() {
        let text = error_text(stderr);
        assert!(!text.is_empty() && !text.contains("level=") && !text.starts_with("Error: "), "{text}");
    }
}

#[test]
fn every_reason_that_helm_can_give_has_a_sample() {
    use FailureReason as R;
    // These are seen by others: in the pods, by the readiness check, or by the operator.
    let elsewhere = [R::ImagePull, R::Unschedulable, R::CrashLoop, R::ReadinessTimeout];
    let samples = samples();
    for reason in R::ALL.into_iter().filter(|reason| !elsewhere.contains(reason)) {
        assert!(samples.iter().any(|(_, sample, _)| *sample == reason), "{}", reason.as_str());
    }
}

#[test]
fn a_hook_that_fails_by_a_quota_is_a_question_of_the_quota() {
    let text = "INSTALLATION FAILED: failed pre-install: warning: Hook pre-install x/a.yaml failed: \
                jobs.batch \"hook\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1";
    assert_eq!(classify(Stage::Release, text), FailureReason::QuotaExceeded);
}

#[test]
fn a_text_that_nobody_knows_is_helms_failure_or_a_source_out_of_reach() {
    assert_eq!(classify(Stage::Release, "something new"), FailureReason::HelmFailed);
    assert_eq!(classify(Stage::Removal, "something new"), FailureReason::HelmFailed);
    assert_eq!(classify(Stage::Source, "something new"), FailureReason::SourceUnreachable);
}

#[test]
fn the_cause_that_helm_hides_in_a_log_line_is_put_behind_its_error() {
    let stderr = "level=DEBUG msg=\"uninstall: Failed to delete release\" error=\"[no matches for kind \\\"A\\\"]\"\n\
                  Error: failed to delete release: x\n";
    assert_eq!(error_text(stderr), "failed to delete release: x: [no matches for kind \"A\"]");
}

#[test]
fn a_helm_that_had_to_end_early_says_what_it_waited_for() {
    let waits = |name: &str| {
        format!(
            "level=DEBUG msg=\"waiting for resource\" namespace=hooks name={name} kind=Job expectedStatus=Current \
             actualStatus=InProgress\n"
        )
    };
    let done =
        "level=DEBUG msg=\"all resources achieved desired status\" desiredStatus=Current resourceCount=1\n";
    let stderr = format!("{}{done}{}Error: context canceled\n", waits("before"), waits("after"));
    let told = ended_in(Stage::Release, Ended::Deadline, "helm install", &stderr);
    assert_eq!(told.reason, FailureReason::HookFailed);
    assert_eq!(told.message, "no time is left for helm install: it waited for Job after (InProgress)");
    let removal = ended_in(Stage::Removal, Ended::Deadline, "helm uninstall", &stderr);
    assert_eq!(removal.reason, FailureReason::JobDeadline);
    assert!(removal.message.ends_with("Job after (InProgress)"), "{removal}");
    // What was waited for before is not what was waited for last.
    let told =
        ended_in(Stage::Release, Ended::Deadline, "helm install", &format!("{}{done}", waits("before")));
    assert_eq!(told, Failure::ended(Ended::Deadline, "helm install"));
    let stopped = ended_in(Stage::Release, Ended::Stopped, "helm install", &stderr);
    assert_eq!(stopped, Failure::ended(Ended::Stopped, "helm install"));
}

#[test]
fn an_error_without_its_word_is_all_that_is_no_debugging() {
    assert_eq!(error_text("level=DEBUG msg=x\nsomething broke\nlevel=DEBUG msg=y\n"), "something broke");
}
