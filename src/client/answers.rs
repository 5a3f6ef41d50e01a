//! Tells of requests to the API server and of their answers on their way, and changes neither.
use axum::http::{Request, Response};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// What is told of them.
pub trait Listener: Clone + Send + 'static {
    /// What it keeps of a request until the answer.
    type Asked: Send + 'static;

    /// Hears a request.
    fn asked<A>(&self, request: &Request<A>) -> Self::Asked;

    /// Hears the answer, or that there was none.
    fn answered<B>(&self, asked: Self::Asked, answer: Option<&Response<B>>);
}

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
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (listener, asked) = (self.listener.clone(), self.listener.asked(&request));
        let answer = self.inner.call(request).err_into();
        answer.inspect(move |outcome| listener.answered(asked, outcome.as_ref().ok())).boxed()
    }
}
