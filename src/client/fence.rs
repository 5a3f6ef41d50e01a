//! Refuses writes while this process does not lead.
use crate::{error::NotLeading, leader::Leadership};
use axum::http::{Method, Request};
use futures::future::{Either, Ready, ready};
use std::task::{Context, Poll};
use tower::{BoxError, Layer, Service};

/// Puts the check on leadership directly before the connection: whatever a task decided earlier, and however long
/// the process was stopped since, no write leaves after the lease's deadline.
#[derive(Clone, Debug)]
pub struct Fence {
    leadership: Leadership,
}

impl Fence {
    /// Makes the layer.
    pub fn new(leadership: Leadership) -> Self {
        Self { leadership }
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, leadership: self.leadership.clone() }
    }
}

/// See [`Fence`].
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    leadership: Leadership,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, futures::future::ErrInto<S::Future, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if request.method() == Method::GET || self.leadership.is_leading() {
            Either::Right(futures::TryFutureExt::err_into(self.inner.call(request)))
        } else {
            Either::Left(ready(Err(NotLeading.into())))
        }
    }
}
