//! Tokens of one OpenID Connect issuer. The signature is checked by `jsonwebtoken` on aws-lc; what stands here is which
//! keys may sign, what a token must say, and when the issuer is asked.

mod keys;
mod provider;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod verifier;

pub use keys::{KeySet, NoKeys};
pub use provider::{FetchError, Provider, ProviderError, is_issuer};
pub use token::Refused;
#[cfg(test)]
pub(crate) use token::reads;
pub use verifier::{AuthError, Expect, Source, Verifier};
