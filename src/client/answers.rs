//! Tells of requests to the API server and of their answers on their way, and changes neither.
use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    http::{Request, Response, StatusCode, response::Parts},
};
use futures::{FutureExt, future::BoxFuture};
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// What is told of them.
pub trait Listener: Clone + Send + 'static {
    /// What it keeps of a request until the answer.
    type Asked: Send + 'static;

    /// Hears a request.
    fn asked<A>(&self, request: &Request<A>) -> Self::Asked;

    /// Hears the answer, or that there was none.
    fn answered(&self, asked: Self::Asked, answer: Option<Heard<'_>>);
}

/// What is heard of an answer.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// Its status and headers.
    pub head: &'a Parts,
    /// What a refusal (403) says; of other answers nothing is read here.
    pub refusal: &'a [u8],
}

/// More than any status has.
const REFUSAL_BYTES_MAX: usize = 1 << 20;

/// The layer that tells a [`Listener`].
#[derive(Clone, Debug)]
pub struct Listen<L>(pub L);

impl<S, L: Listener> Layer<S> for Listen<L> {
    type Service = Listening<S, L>;

    fn layer(&self, inner: S) -> Listening<S, L> {
        Listening { inner, listener: self.0.clone() }
    }
}

/// See [`Listen`].
#[derive(Clone, Debug)]
pub struct Listening<S, L> {
    inner: S,
    listener: L,
}

impl<S, L, A, B> Service<Request<A>> for Listening<S, L>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    L: Listener,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (listener, asked) = (self.listener.clone(), self.listener.asked(&request));
        let answer = self.inner.call(request);
        async move {
            let answer = match answer.await {
                Ok(answer) => answer,
                Err(error) => {
                    listener.answered(asked, None);
                    return Err(error.into());
                }
            };
            let (head, body) = answer.into_parts();
            let mut body = Body::new(body);
            let mut refusal = Bytes::new();
            if head.status == StatusCode::FORBIDDEN {
                let read = to_bytes(body, REFUSAL_BYTES_MAX).await;
                refusal = match read {
                    Ok(read) => read,
                    Err(error) => {
                        listener.answered(asked, Some(Heard { head: &head, refusal: &[] }));
                        return Err(error.into());
                    }
                };
                body = refusal.clone().into();
            }
            listener.answered(asked, Some(Heard { head: &head, refusal: &refusal }));
            Ok(Response::from_parts(head, body))
        }
        .boxed()
    }
}
