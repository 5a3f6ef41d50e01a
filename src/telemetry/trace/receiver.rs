//! An OTLP receiver for tests: a real gRPC server on loopback.

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    resource::v1::Resource,
    trace::v1::Span,
};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, transport::Server, transport::server::TcpIncoming};

/// A span, and the program that it came from.
type Received = (Option<Resource>, Span);

/// What was received.
#[derive(Clone, Default)]
pub(crate) struct Receiver(Arc<Mutex<Vec<Received>>>);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.0.lock().unwrap();
        for part in request.into_inner().resource_spans {
            let spans = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.extend(spans.map(|span| (part.resource.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Receiver {
    /// Serves until the test ends; returns the endpoint.
    pub(crate) async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(self.clone());
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(serving);
        endpoint
    }

    /// Returns all spans in the order of their beginnings.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<_> = self.0.lock().unwrap().iter().map(|(_, span)| span.clone()).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// Returns the attributes of the programs that sent something.
    pub(crate) fn resources(&self) -> String {
        format!("{:?}", self.0.lock().unwrap().iter().map(|(resource, _)| resource).collect::<Vec<_>>())
    }
}

/// Returns an endpoint that takes connections and never says a word.
pub(crate) async fn hanging() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            held.push(connection);
        }
    });
    endpoint
}
