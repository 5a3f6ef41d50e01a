//! petri-apiserver: environments over HTTP for pipelines that have an identity token and no kubeconfig.
//!
//! Stateless: what it knows is in the one management namespace. Every request is authenticated, then authorised, then
//! routed; health alone needs no token.
//!
//! - *Who*: [`oidc`] turns a token into a [`identity::Principal`], [`policy`] says whether it may come in.
//! - *What*: `routes` are the REST API, `body` and `query` decode strictly, `view` is what is shown.
//! - *How*: `upsert` is the one way in which an environment is written.

pub mod config;
pub mod identity;
pub mod metrics;
pub mod oidc;
pub mod policy;
pub mod strict;
#[cfg(test)]
pub mod testing;
