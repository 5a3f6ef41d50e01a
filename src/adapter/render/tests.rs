use super::{Variables, render};
use serde_json::json;

fn variables() -> Variables {
    Variables::new(&json!({
        "Env": {"Name": "pr-1", "Slug": "pr_1", "Namespace": "petri-env-0123", "GeneratedSecret": "s3cr3t"},
        "Count": 12_345_678,
    }))
}

/// `Ok` is the text, `Err` the message.
fn check(source: &str, expected: Result<&str, &str>) {
    let found = render(source, &variables()).map_err(|error| error.to_string());
    assert_eq!(found.as_deref().map_err(String::as_str), expected, "{source}");
}

#[test]
fn scenario_13_the_name_and_the_generated_secret_are_both_put_in() {
    check("{{ .Env.Name }}:{{ .Env.GeneratedSecret }}", Ok("pr-1:s3cr3t"));
    check("{{ $.Env.Slug }}@{{ .Env.Namespace }}", Ok("pr_1@petri-env-0123"));
    check("no template, } and { and }} are text", Ok("no template, } and { and }} are text"));
}

#[test]
fn scenario_14_a_key_that_does_not_exist_is_an_error_with_its_path() {
    check("{{ .Env.URL }}", Err("1:4: .Env.URL does not exist"));
    check("{{ .Nope.Name }}", Err("1:4: .Nope does not exist"));
    check("{{ $.Env.Nope }}", Err("1:4: .Env.Nope does not exist"));
    check("{{ with .Env }}{{ .Name }}{{ .Nope }}{{ end }}", Err("1:30: .Env.Nope does not exist"));
    check("{{ if .Env.Nope }}x{{ end }}", Err("1:7: .Env.Nope does not exist"));
    check("{{ printf \"%s\" (.Env.Nope | upper) }}", Err("1:17: .Env.Nope does not exist"));
    check("{{ range .Env }}{{ .Nope }}{{ end }}", Err("1:17: can't evaluate field Nope in type string"));
    check(
        "{{ index .Env \"Nope\" }}",
        Err("1:1: the result holds \"<no value>\": something in it does not exist"),
    );
}

#[test]
fn a_branch_that_is_not_taken_may_name_what_does_not_exist() {
    check("{{ if index .Env \"URL\" }}{{ .Env.URL }}{{ else }}none{{ end }}", Ok("none"));
    check("{{ with index .Env \"URL\" }}{{ . }}{{ else }}none{{ end }}", Ok("none"));
}

#[test]
fn a_block_that_is_not_closed_or_not_open_is_refused() {
    check("{{ if true }}x", Err("1:1: if has no end"));
    check("a\n {{ range 3 }}x{{ if true }}{{ end }}", Err("2:2: range has no end"));
    check("x{{ end }}y", Err("1:2: end without a block"));
    check("{{ if true }}x{{ end }}{{ end }}", Err("1:24: end without a block"));
    check("{{ else }}", Err("1:1: else without if, with or range"));
    check("{{ if true }}{{ else }}{{ else }}{{ end }}", Err("1:24: else without if, with or range"));
    check("{{ if true }}{{ else with 1 }}{{ end }}", Err("1:14: else of if with something behind it"));
    check("{{ if true }}{{ define \"a\" }}{{ end }}{{ end }}", Err("1:14: define inside another block"));
    check("{{ break }}", Err("1:1: break outside range"));
    check("{{ if false }}{{ continue }}{{ end }}", Err("1:15: continue outside range"));
    check("{{ \"}}\" }}{{- /* {{ end }} */ -}} {{ `}}` }}", Ok("}}}}"));
    check("{{ if false }}a{{ else if true }}b{{ else }}c{{ end }}", Ok("b"));
    check("{{ range 5 }}{{ if eq . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}", Ok("012"));
}

#[test]
fn what_go_would_not_parse_is_refused() {
    check("{{ /* spaced */ }}", Err("1:1: a comment begins right behind {{"));
    check("{{/* spaced */ }}", Err("1:15: a comment ends right before }}"));
    check("{{/* open", Err("1:1: unclosed comment"));
    check(
        "a {{- /* c */}} b",
        Err("1:3: a comment that trims before it trims after it too: close it with -}}"),
    );
    check("a {{/* c */ -}} b", Ok("a b"));
    check("a {{- /* c */}}b", Ok("ab"));
    check("{{ .Env.Name ", Err("1:1: {{ without }}"));
    check("{{ \"a\nb\" }}", Err("1:4: a string has no end on its line"));
    check("{{ nope 1 }}", Err("1:4: function \"nope\" does not exist"));
    check("{{ if false }}{{ env \"HOME\" }}{{ end }}", Err("1:18: function \"env\" does not exist"));
    check("{{ $zz = 1 }}", Err("1:4: variable $zz is not declared"));
    check("{{ $zz }}", Err("1:4: variable $zz is not declared"));
    check("{{ if true }}{{ $a := 1 }}{{ end }}{{ $a }}", Err("1:39: variable $a is not declared"));
    check("{{ $a := 1 }}{{ if true }}{{ $a = 2 }}{{ end }}{{ $a }}", Ok("2"));
    check("{{ nil }}", Err("1:4: nil is no command"));
    check("{{ 1 | 2 }}", Err("1:8: only a function can stand behind |"));
    check("{{ template \"x\" . }}", Err("1:4: template \"x\" is not defined"));
    check(
        "{{ define \"x\" }}{{ .Env.Name }}{{ end }}{{ template \"x\" }}",
        Err("1:44: say what template \"x\" gets, as in a dot"),
    );
    check("{{ define \"x\" }}{{ .Name }}{{ end }}{{ template \"x\" .Env }}", Ok("pr-1"));
}

#[test]
fn functions_do_what_sprig_and_helm_do() {
    for (source, result) in [
        (r#"{{ default "d" "" }}{{ "" | default "d" }}{{ .Env.Name | default "d" }}"#, "ddpr-1"),
        (r#"{{ required "no name" .Env.Name }}"#, "pr-1"),
        (r#"{{ quote "a\"b\\c\n" 5 }}"#, r#""a\"b\\c\n" "5""#),
        (r#"{{ lower "ABC" }}{{ upper "abc" }}{{ trim "  x\n" }}"#, "abcABCx"),
        (r#"{{ trunc 3 "abcdef" }}{{ trunc -2 "abcdef" }}{{ trunc 9 "abc" }}{{ trunc 1 "ä" }}"#, "abcefabc"),
        (r#"{{ trimPrefix "pr-" .Env.Name }}{{ trimSuffix "-1" .Env.Name }}"#, "1pr"),
        (r#"{{ .Env.Name | replace "-" "_" }}"#, "pr_1"),
        (
            r#"{{ b64enc "" }}|{{ b64enc "f" }}|{{ b64enc "fo" }}|{{ b64enc "foobar" }}"#,
            "|Zg==|Zm8=|Zm9vYmFy",
        ),
        (r#"{{ sha256sum "abc" }}"#, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (r#"{{ toJson .Env.Name }}{{ toJson .Count }}"#, "\"pr-1\"12345678"),
        (r#"{{ indent 2 "a\nb" }}{{ nindent 1 "c" }}"#, "  a\n  b\n c"),
        (r#"{{ printf "%s-%03d" .Env.Name 7 }}{{ print 1 2 }}{{ println "x" }}"#, "pr-1-0071 2x\n"),
        (r#"{{ html "<a>" }}{{ urlquery "a b" }}{{ js "'" }}"#, r"&lt;a&gt;a+b\'"),
        ("{{ .Count }}{{ len .Env.Name }}", "123456784"),
    ] {
        check(source, Ok(result));
    }
    check(r#"{{ required "a name is needed" "" }}"#, Err("1:1: a name is needed"));
    check(r#"{{ upper 5 }}"#, Err("1:1: upper needs a text"));
    check(r#"{{ quote (index .Env "Nope") }}"#, Err("1:1: quote: a value does not exist"));
    check(r#"{{ indent 1000000000 "x" }}"#, Err("1:1: indent needs a width from 0 to 256 and a text"));
}

#[test]
fn no_text_makes_the_operator_work_or_swell_without_bound() {
    let doubling = format!("{{{{ $x := \"{}\" }}}}", "x".repeat(64))
        + &"{{ $x = printf \"%s%s\" $x $x }}".repeat(60)
        + "{{ $x }}";
    let calls: String = (0..40)
        .map(|n| {
            format!(
                "{{{{ define \"t{n}\" }}}}{}{{{{ end }}}}",
                format!("{{{{ template \"t{}\" . }}}}", n + 1).repeat(2)
            )
        })
        .collect();
    for (source, message) in [
        (doubling.clone(), "functions make more than"),
        (doubling.replace("printf \"%s%s\"", "print"), "functions make more than"),
        (
            "{{ \"aaaaaaaa\"".to_owned() + &" | replace \"a\" \"aaaaaaaa\"".repeat(20) + " }}",
            "functions make more",
        ),
        ("{{ \"\\\\\"".to_owned() + &" | js".repeat(40) + " }}", "functions make more than"),
        ("{{ range 1000000000 }}x{{ end }}".to_owned(), "range takes more than 100 steps"),
        (
            calls + "{{ define \"t40\" }}{{ end }}{{ template \"t0\" . }}",
            "templates call each other too often",
        ),
        ("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}".to_owned(), "too often"),
        ("{{ range 90 }}".to_owned() + &"y".repeat(4_000) + "{{ end }}", "more than 262144 bytes"),
        ("{{ $x := printf \"%65535d\" 1 }}".repeat(70), "functions make more than"),
        ("{{ printf \"%99999999d\" 1 }}".to_owned(), "a width is at most 65535"),
    ] {
        let error = render(&source, &variables()).expect_err("a bound").to_string();
        assert!(error.contains(message), "{error}: {}", &source[..source.len().min(80)]);
    }
}
