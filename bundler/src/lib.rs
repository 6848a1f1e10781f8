//! Outhaul's centre: the program `outhaul`, from a control plane to what travels.
//!
//! ```text
//! control ─▶ schedule ─▶ compose ─▶ render ─▶ collect ─▶ assemble ─▶ deliver
//!  (git, YAML)  who        with        as         with      as one      on a stick,
//!               where      what        what       what      bundle      over HTTPS
//!  outhaul-load, over outhaul-plane             outhaul-ship
//! ```
//!
//! Each stage is in a separate crate: the value on its left goes in, the value on its right comes out, and
//! none reaches back. This one is what people and daemons do with them: `cli` is what people type and holds no
//! rules, [`serve`] does all of it again and again, and `outhaul-scaffold` and [`demo`] are for
//! those who begin, as is `outhaul-import`. `outhaul-promote` moves a commit to the next environment, `outhaul-blame` names the one that broke a site, `outhaul-remote` asks hubs and forges.

pub mod cli;
mod demo;
mod helm;
mod notes;
pub mod project;
mod publication;
mod registries;
pub mod serve;
