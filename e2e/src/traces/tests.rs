use super::*;

fn span(id: &str, parent: &str, name: &str, began: u64, ended: u64) -> Span {
    Span {
        service: "petri-operator".to_owned(),
        trace: "t".to_owned(),
        id: id.to_owned(),
        parent: parent.to_owned(),
        name: name.to_owned(),
        began: began * 1_000_000,
        ended: ended * 1_000_000,
        failure: None,
        attributes: BTreeMap::new(),
        links: Vec::new(),
    }
}

/// A pass creates a Job that outlives it; its end is taken up by a second pass, and readiness follows.
fn deploy() -> Vec<Span> {
    vec![
        span("root", "", "deploy environment", 0, 1000),
        span("p1", "root", "reconcile", 10, 40),
        span("w", "p1", "create jobs", 20, 30),
        span("j", "w", "deploy job", 30, 600),
        span("d", "j", "deployer", 200, 500),
        span("h", "d", "helm install", 250, 480),
        span("side", "root", "reconcile", 300, 320),
        span("p2", "root", "reconcile", 600, 640),
        span("r", "root", "readiness", 600, 950),
        span("p3", "root", "reconcile", 950, 1000),
    ]
}

#[test]
fn the_critical_path_goes_through_the_job_and_leaves_no_gap() {
    let spans = deploy();
    let tree = Tree::of(&spans, "t");
    assert_eq!(tree.roots, [0]);
    let path = critical_path(&tree, 0);
    let named: Vec<(&str, u64)> = path
        .iter()
        .map(|stretch| (tree.spans[stretch.place].name.as_str(), (stretch.to - stretch.from) / 1_000_000))
        .collect();
    let wanted = [
        ("deploy environment", 10),
        ("reconcile", 10),
        ("create jobs", 10),
        ("deploy job", 170),
        ("deployer", 50),
        ("helm install", 230),
        ("deployer", 20),
        ("deploy job", 100),
        ("readiness", 350),
        ("reconcile", 50),
    ];
    assert_eq!(named, wanted);
    assert_eq!(named.iter().map(|(_, waited)| waited).sum::<u64>(), 1000);
}

#[test]
fn the_picture_names_what_the_end_waited_for_and_leaves_out_what_is_short() {
    let mut spans = deploy();
    spans.push(span("tiny", "p1", "read", 10, 11));
    let tree = Tree::of(&spans, "t");
    let text = text(&tree, 0);
    assert!(text.contains("critical path 1.000 s; 1 spans shorter than 5 ms are left out"), "{text}");
    assert!(text.contains("0.350 s  readiness"), "{text}");
    assert!(!text.contains("read "), "{text}");
    let svg = svg(&tree, 0);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("helm install"));
}

#[tokio::test]
async fn what_is_sent_by_otlp_is_received_as_data() {
    let receiver = Receiver::start("127.0.0.1").await.unwrap();
    assert!(receiver.endpoint().starts_with("http://127.0.0.1:"));
    assert!(receiver.spans().is_empty());
}
