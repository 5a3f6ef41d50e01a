//! What the description of the API says of several routes alike, once.

use crate::apiserver::error::ErrorBody;
use std::collections::BTreeMap;
use utoipa::{
    IntoParams, IntoResponses, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder},
};

/// The one parameter of a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only described: axum's own extractor reads it")]
pub(super) struct Named {
    /// Name of the environment
    #[param(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    name: String,
}

/// The parameters of a list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only described: the query is read by hand, which is stricter")]
pub(super) struct Paged {
    /// Most entries of a page
    #[param(minimum = 1, maximum = 500, nullable = false)]
    limit: Option<u32>,
    /// What the last page ended with
    #[param(rename = "continue", min_length = 1, max_length = 8192, nullable = false)]
    after: Option<String>,
}

/// A set of answers that are errors.
macro_rules! errors {
    ($(#[$doc:meta])* $name:ident: $($code:literal $why:literal),+) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$(($code, $why)),+].map(|(code, why)| (u16::to_string(&code), error(why))).into()
            }
        }
    };
}

errors! {
    /// What every route may answer.
    Refused:
    400 "Malformed",
    401 "No valid token",
    403 "Not permitted",
    500 "It failed on the server's side",
    503 "The identity provider does not answer"
}

errors! {
    /// What a route of one environment may answer besides.
    Absent:
    404 "There is none, or it is another repository's"
}

errors! {
    /// What a route with a body may answer besides.
    Unread:
    408 "The body did not arrive in time",
    413 "Longer than 1 MiB",
    415 "Not JSON"
}

/// What is said before a request is one: no more of it is read, so that the answer has no body.
pub(super) struct TooLong;

impl IntoResponses for TooLong {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        [("414", "The address is longer than 64 KiB"), ("431", "Address and headers are longer than 64 KiB")]
            .map(|(code, why)| (code.to_owned(), RefOr::T(ResponseBuilder::new().description(why).build())))
            .into()
    }
}

fn error(why: &str) -> RefOr<Response> {
    let schema = Ref::from_schema_name(ErrorBody::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    RefOr::T(ResponseBuilder::new().description(why).content("application/json", content).build())
}
