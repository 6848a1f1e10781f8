//! Remote: what the centre asks over HTTPS, one bounded request at a time.
//!
//! What comes in: a URL, a token, what is asked. What goes out: the answer's bytes ([`http`]), or a pull request
//! on a forge ([`forge`]). It decides nothing about what is asked, and no token stands in a message.

pub mod forge;
pub mod http;

pub use outhaul_signer::hub_url::hub_url;
