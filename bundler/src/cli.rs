//! What people type: one file per subcommand, each with its arguments and a `run`.
//!
//! What comes in: the command line. What goes out: data on standard output, talk on standard error,
//! and an exit code: 0 ok, 1 findings or refused, 2 usage or configuration, 3 environment, 4 trust,
//! 5 internal. It holds no rule of its own.
