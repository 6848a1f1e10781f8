//! Scopes: what a token allows.
//!
//! What comes in: words. What goes out: a set of scopes, and whether it covers what a request needs. A set is never empty,
//! and a word that is not known is refused: a misspelled scope would otherwise allow less, or more, than was meant.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// What someone may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Look at pages and lists, and ask gates.
    Read,
    /// Have the answers of gates put on record under one's name.
    Record,
    /// Send what nobody signed: explanations of renderings.
    Ingest,
    /// State the outcomes of checks, which gates count where a rule asks for them.
    Check,
    /// Approve, hold, waive, defer and withdraw.
    Approve,
    /// Everything above, and see who did what.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Record,
        Self::Ingest,
        Self::Check,
        Self::Approve,
        Self::Admin,
    ];

    /// `read`, `record`, `ingest`, `check`, `approve` or `admin`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Record => "record",
            Self::Ingest => "ingest",
            Self::Check => "check",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }

    /// Whether whoever has this scope may do what needs `needed`: who records or approves has to see what.
    fn covers(self, needed: Self) -> bool {
        self == needed
            || self == Self::Admin
            || (needed == Self::Read && matches!(self, Self::Record | Self::Approve))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScope(pub String);

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a scope: ", self.0)?;
        f.write_str("read, record, ingest, check, approve and admin are")
    }
}

impl std::error::Error for UnknownScope {}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let named = |scope: &Self| scope.word() == text;
        let found = Self::ALL.into_iter().find(named);
        found.ok_or_else(|| UnknownScope(text.to_owned()))
    }
}

/// What a token allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// These scopes.
    pub fn of(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self(scopes.into_iter().collect())
    }

    /// Whether they cover `needed`.
    pub fn allow(&self, needed: Scope) -> bool {
        self.0.iter().any(|scope| scope.covers(needed))
    }

    /// Their words, in the order of [`Scope::ALL`].
    pub fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|scope| scope.word()).collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(" "))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    /// Words with spaces between.
    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        let scopes: Result<BTreeSet<_>, _> = text.split_whitespace().map(str::parse).collect();
        match scopes? {
            none if none.is_empty() => Err(UnknownScope(String::new())),
            some => Ok(Self(some)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each scope covers, in the order of `Scope::ALL`.
    const COVERED: [(Scope, [bool; 6]); 6] = [
        (Scope::Read, [true, false, false, false, false, false]),
        (Scope::Record, [true, true, false, false, false, false]),
        (Scope::Ingest, [false, false, true, false, false, false]),
        (Scope::Check, [false, false, false, true, false, false]),
        (Scope::Approve, [true, false, false, false, true, false]),
        (Scope::Admin, [true, true, true, true, true, true]),
    ];

    #[test]
    fn each_scope_covers_what_the_table_says_and_nothing_else() {
        for (scope, covered) in COVERED {
            for (needed, expected) in Scope::ALL.into_iter().zip(covered) {
                assert_eq!(
                    Scopes::of([scope]).allow(needed),
                    expected,
                    "{scope} {needed}"
                );
            }
        }
        assert!(!Scopes::default().allow(Scope::Read));
    }

    #[test]
    fn words_come_back_and_what_is_no_scope_is_refused() {
        let all: Scopes = "admin read approve".parse().unwrap();
        assert_eq!(all.to_string(), "read approve admin");
        assert_eq!(all.to_string().parse(), Ok(all));
        for wrong in ["", " ", "Read", "read,approve", "reed"] {
            assert!(wrong.parse::<Scopes>().is_err(), "{wrong}");
        }
    }
}
