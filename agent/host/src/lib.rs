//! The machine around an agent: clocks, space, servers, reconcilers, and what can go wrong with it.
//!
//! What comes in: questions. What goes out: what the system says, and errors with what to do next. It decides nothing and
//! remembers nothing.

pub mod blind;
pub mod error;
pub mod facilities;
pub mod host;
pub mod http;
pub mod links;
pub mod other_files;
pub mod owner;
pub mod page_place;
pub mod reconcilers;
pub mod state_place;
