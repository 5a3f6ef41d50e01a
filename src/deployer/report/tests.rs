use super::*;
use proptest::prelude::*;

fn failed(message: &str) -> Report {
    Report::Failed { reason: FailureReason::HelmFailed, message: message.to_owned() }
}

#[test]
fn the_two_outcomes_have_a_fixed_form() {
    let done = Report::Succeeded { revision: Some(3), skipped: None };
    assert_eq!(done.termination_log(), r#"{"outcome":"succeeded","revision":3}"#);
    let failed = Report::Failed { reason: FailureReason::ChartNotFound, message: "no such chart".to_owned() };
    assert_eq!(
        failed.termination_log(),
        r#"{"outcome":"failed","reason":"ChartNotFound","message":"no such chart"}"#
    );
}

#[test]
fn what_the_container_runtime_writes_is_no_report() {
    let texts =
        ["", "exec: \"/bin/x\": no such file or directory: unknown", "{}", "[1]", r#"{"outcome":"failed"}"#];
    for text in texts {
        assert_eq!(Report::parse(text), None, "{text}");
    }
}

#[test]
fn a_reason_of_a_newer_deployer_is_kept_as_text() {
    let text = r#"{"outcome":"failed","reason":"SignatureInvalid","message":"bad","more":1}"#;
    assert_eq!(Report::parse(text), Some(failed("SignatureInvalid: bad")));
}

proptest! {
    #[test]
    fn a_report_of_any_text_fits_and_keeps_its_start_and_its_root_cause(
        noise in "(?s).{0,6000}", cause in "[a-zA-Z0-9 :.\"]{1,400}"
    ) {
        let text = format!("start of it {noise}{cause}");
        let log = failed(&text).termination_log();
        prop_assert!(log.len() <= TERMINATION_LOG_MAX, "{} bytes", log.len());
        let Some(Report::Failed { message, .. }) = Report::parse(&log) else {
            return Err(TestCaseError::fail("not a report"));
        };
        prop_assert!(message.starts_with("start of it"));
        prop_assert!(message.ends_with(&cause));
        let whole = message.chars().count() == text.chars().count();
        prop_assert!(whole || message.contains(" … "));
    }

    #[test]
    fn a_cut_is_never_longer_than_asked_and_uses_the_room(text in "\\PC{0,300}", max in 0_usize..400) {
        let cut = cut_in_the_middle(&text, max);
        prop_assert!(cut.len() <= max);
        prop_assert!(cut == text || max < 5 || cut.len() + 8 >= max, "{} of {max}", cut.len());
    }

    #[test]
    fn a_short_report_comes_back_as_it_was(message in "[^\\p{Cc}]{0,300}", revision in proptest::option::of(1_u32..)) {
        let report = failed(&message);
        prop_assert_eq!(Report::parse(&report.termination_log()), Some(report));
        let report = Report::Succeeded { revision, skipped: Some(message) };
        prop_assert_eq!(Report::parse(&report.termination_log()), Some(report));
    }
}
