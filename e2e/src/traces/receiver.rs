//! An OTLP receiver: gRPC, one address, everything kept in memory.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span as Wire, status::StatusCode};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::{Server, server::TcpIncoming};
use tonic::{Request, Response, Status};

use super::Span;
use crate::petri::Error;

/// Takes spans until it is dropped.
pub struct Receiver {
    address: SocketAddr,
    received: Received,
    task: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Span>>>);

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// Begins to listen at this address of the machine, on a free port.
    pub async fn start(address: &str) -> Result<Self, Error> {
        let file = |source| Error::File { path: address.into(), source };
        let listener = TcpListener::bind((address, 0)).await.map_err(file)?;
        let address = listener.local_addr().map_err(file)?;
        let received = Received::default();
        let service = TraceServiceServer::new(received.clone());
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        let task = tokio::spawn(async move {
            let _ = serving.await;
        });
        Ok(Self { address, received, task })
    }

    /// Returns the endpoint to configure.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what was received so far.
    pub fn spans(&self) -> Vec<Span> {
        self.received.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for part in request.into_inner().resource_spans {
            let program = part.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = value(&program, "service.name");
            let spans = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.extend(spans.map(|span| read(&service, span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn read(service: &str, span: Wire) -> Span {
    let failed = span.status.filter(|status| status.code() == StatusCode::Error);
    Span {
        service: service.to_owned(),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        failure: failed.map(|status| status.message),
        attributes: span.attributes.iter().map(|one| (one.key.clone(), text(one))).collect(),
        links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
    }
}

fn value(all: &[KeyValue], key: &str) -> String {
    all.iter().find(|one| one.key == key).map(text).unwrap_or_default()
}

fn text(one: &KeyValue) -> String {
    match one.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
