use super::*;
use crate::{
    client::{CountRequests, Denials, Listen},
    controller::Kind,
    telemetry::metrics::{ErrorLabels, encode},
};
use axum::{
    body::Body,
    http::{Request, Response},
};
use petri_machines::{
    environment::Reason,
    names::{EnvironmentName, Uid},
    reason::FailureReason,
};
use std::{collections::BTreeSet, convert::Infallible};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Everything that one environment can say, with every reason and every operation.
fn all(number: usize) -> Vec<Notice> {
    let component = ComponentName::new(format!("component-{number}")).unwrap();
    let mut all = vec![Notice::Expired];
    for to in ["Pending", "Deploying", "Ready", "Terminating"] {
        all.push(Notice::Moved { from: "Pending", to, signal: "Unbound", why: None });
    }
    for reason in Reason::ALL.into_iter().filter(|reason| reason.fails()) {
        let why = Some((reason, format!("what went wrong in environment {number}")));
        all.push(Notice::Moved { from: "Deploying", to: "Failed", signal: "Broken", why });
    }
    for op in Op::ALL {
        for failure in [None].into_iter().chain(FailureReason::ALL.map(Some)) {
            let notice = component::Notice::JobEnded { op, failure };
            all.push(Notice::Component { component: component.clone(), notice });
            let notice = slice::Notice::JobEnded { op, failure };
            all.push(Notice::Slice { component: component.clone(), notice });
        }
    }
    for reason in FailureReason::ALL {
        let notice = component::Notice::Forced { serial: 1, reason };
        all.push(Notice::Component { component: component.clone(), notice });
        all.push(Notice::Slice { component: component.clone(), notice: slice::Notice::Forced { reason } });
    }
    all
}

/// What is scraped after so many environments said everything, and asked the API server for everything.
async fn scraped(environments: usize) -> Vec<String> {
    let (metrics, durations) = (Metrics::default(), Durations::default());
    for number in 0..environments {
        let name = format!("environment-{number}");
        let identity = Identity {
            uid: Uid::new(format!("uid-{number}")).unwrap(),
            name: EnvironmentName::new(name.as_str()).unwrap(),
            generation: 1,
        };
        let (key, record) = (Key::environment(name.as_str()), Record::default());
        let about = About {
            key: &key,
            identity: &identity,
            record: &record,
            now: Timestamp(7),
            durations: &durations,
            trace: TraceId::from_bytes([u8::try_from(number % 255).unwrap() + 1; 16]).into(),
        };
        all(number).iter().for_each(|notice| drop(say(notice, &about, &metrics)));
        metrics.reconciled(Kind::Environment.as_str(), Duration::from_millis(3), about.trace);
        let errors = ErrorLabels { controller: Kind::Environment.as_str(), class: "backoff" };
        metrics.reconcile_errors.get_or_create(&errors).inc();
        for path in [
            format!(
                "/apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments/{name}/status"
            ),
            format!("/api/v1/namespaces/petri-env-{number}"),
            format!("/api/v1/namespaces/petri-env-{number}/secrets/{name}"),
            format!("/apis/batch/v1/namespaces/petri-env-{number}/jobs/{name}"),
        ] {
            let answers =
                service_fn(|_: Request<Body>| async { Ok::<_, Infallible>(Response::new(Body::empty())) });
            let request = Request::get(path).body(Body::empty()).unwrap();
            Listen(CountRequests::new(metrics.clone(), Denials::default()))
                .layer(answers)
                .oneshot(request)
                .await
                .unwrap();
        }
    }
    metrics.set_environments(&[("Ready", i64::try_from(environments).unwrap())].into());
    let series = |line: &str| line.split(['}', ' ']).next().unwrap_or_default().to_owned();
    let text = encode(&metrics.registry()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(series).collect()
}

#[tokio::test]
async fn five_hundred_environments_have_no_more_series_than_one() {
    let (one, many): (BTreeSet<_>, BTreeSet<_>) =
        (scraped(1).await.into_iter().collect(), scraped(500).await.into_iter().collect());
    assert_eq!(one, many);
    assert!(one.len() < 200, "{} series", one.len());
}
