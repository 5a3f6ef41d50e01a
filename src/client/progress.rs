//! Sees whether a watch lives: bookmarks and silent reconnects never reach the event stream, so the answers and
//! body frames of its own client are stamped instead.
use crate::clock::Clock;
use axum::{
    body::{Body, Bytes, HttpBody},
    http::{Request, Response},
};
use futures::{FutureExt, StreamExt, TryFutureExt, future::BoxFuture};
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

/// When the server was last heard of on one watch, and what it last complained about.
#[derive(Clone, Debug)]
pub struct Progress {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    heard_at: Instant,
    trouble: Option<String>,
    /// The server has answered well since the trouble: it is over, although no event has said so yet.
    over: bool,
}

impl Progress {
    /// Starts now, so that a watch that never connects is found too.
    pub fn new(clock: Clock) -> Self {
        let state = State { heard_at: clock.instant(), trouble: None, over: true };
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns how long the server was not heard of.
    pub fn silence(&self) -> Duration {
        self.clock.instant().saturating_duration_since(self.lock().heard_at)
    }

    /// Returns what the watch fails with.
    pub fn trouble(&self) -> Option<String> {
        let state = self.lock();
        state.trouble.clone().filter(|_| !state.over)
    }

    /// Records what the watch failed with, or that it delivers; tells whether that is news.
    pub fn set_trouble(&self, trouble: Option<String>) -> bool {
        let mut state = self.lock();
        let news = state.trouble != trouble;
        state.trouble = trouble;
        state.over = false;
        news
    }

    fn heard(&self, well: bool) {
        let mut state = self.lock();
        state.heard_at = self.clock.instant();
        state.over |= well;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stamps [`Progress`] with every answer and every body frame; any answer counts, because what it finds is a
/// connection that died silently, which only a restart can cure.
#[derive(Clone, Debug)]
pub struct Stamp(pub Progress);

impl<S> Layer<S> for Stamp {
    type Service = Stamped<S>;

    fn layer(&self, inner: S) -> Stamped<S> {
        Stamped { inner, progress: self.0.clone() }
    }
}

/// See [`Stamp`].
#[derive(Clone, Debug)]
pub struct Stamped<S> {
    inner: S,
    progress: Progress,
}

impl<S, A, B> Service<Request<A>> for Stamped<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
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
        let progress = self.progress.clone();
        let answer = self.inner.call(request).err_into();
        async move {
            let (head, body) = answer.await?.into_parts();
            progress.heard(head.status.is_success());
            let frames = Body::new(body).into_data_stream().inspect(move |frame| {
                if frame.is_ok() {
                    progress.heard(false);
                }
            });
            Ok(Response::from_parts(head, Body::from_stream(frames)))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{SinkExt, channel::mpsc};
    use std::convert::Infallible;
    use tower::service_fn;

    #[tokio::test(start_paused = true)]
    async fn an_answer_and_each_frame_break_the_silence_and_nothing_else_does() {
        let progress = Progress::new(Clock);
        let (mut frames, body) = mpsc::channel::<Result<Bytes, Infallible>>(1);
        let mut body = Some(Body::from_stream(body));
        let inner = service_fn(move |_: Request<()>| {
            std::future::ready(Ok::<_, Infallible>(Response::new(body.take().unwrap())))
        });
        let mut service = Stamp(progress.clone()).layer(inner);

        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(progress.silence(), Duration::from_secs(7));
        let mut answer = service.call(Request::new(())).await.unwrap().into_body().into_data_stream();
        assert_eq!(progress.silence(), Duration::ZERO);

        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(futures::poll!(answer.next()).is_pending());
        assert_eq!(progress.silence(), Duration::from_secs(60));
        frames.send(Ok(Bytes::from_static(b"bookmark"))).await.unwrap();
        answer.next().await.unwrap().unwrap();
        assert_eq!(progress.silence(), Duration::ZERO);
    }

    #[test]
    fn a_trouble_is_news_once() {
        let progress = Progress::new(Clock);
        assert!(progress.set_trouble(Some("403".to_owned())));
        assert!(!progress.set_trouble(Some("403".to_owned())));
        assert!(progress.set_trouble(None));
        assert!(!progress.set_trouble(None));
    }

    #[test]
    fn a_good_answer_ends_a_trouble_and_a_refusal_does_not() {
        let progress = Progress::new(Clock);
        progress.set_trouble(Some("503".to_owned()));
        progress.heard(false);
        assert_eq!(progress.trouble().as_deref(), Some("503"));
        progress.heard(true);
        assert_eq!(progress.trouble(), None);
    }
}
