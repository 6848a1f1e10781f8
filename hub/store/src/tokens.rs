//! Tokens and sessions: who may do what over the network, and until when.
//!
//! What comes in: names, scopes as words, and digests. What goes out: the token that belongs to a digest, as long as it
//! holds. No token and no session's secret is ever stored; what the words of scopes mean is not known here.

use serde::Serialize;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::{Session, StoreError};

/// A token, without what would let anybody use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// The name under which its use is on record.
    pub name: String,
    /// What it allows, as words with spaces between.
    pub scopes: String,
    /// When it was made, milliseconds since 1970.
    pub added_ms: i64,
    /// Who made it.
    pub added_by: String,
    /// When it ends by itself; `None`: never.
    pub expires_ms: Option<i64>,
    /// When someone took it away.
    pub revoked_ms: Option<i64>,
}

impl Token {
    /// Whether it holds at `now_ms`.
    pub fn holds(&self, now_ms: i64) -> bool {
        self.revoked_ms.is_none() && self.expires_ms.is_none_or(|end| end > now_ms)
    }
}

/// Sessions of one token, or of one person: whoever begins more ends their oldest.
pub(super) const MAX_SESSIONS: i64 = 50;

const COLUMNS: &str = "t.name, t.scopes, t.added_ms, t.added_by, t.expires_ms, t.revoked_ms";

impl Session<'_> {
    /// Adds a token under its digest; `false`, and nothing is changed, when one of this name holds and is not to be replaced.
    /// Sessions of the one before end with it.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn add_token(
        &self,
        token: &Token,
        token_sha256: &str,
        replace: bool,
    ) -> Result<bool, StoreError> {
        let before = self.tokens()?;
        let same = before.iter().find(|known| known.name == token.name);
        if same.is_some_and(|known| known.holds(token.added_ms)) && !replace {
            return Ok(false);
        }
        self.end_sessions_of(&token.name)?;
        let text = "INSERT INTO tokens (name, token_sha256, scopes, added_ms, added_by, expires_ms, revoked_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (name) DO UPDATE SET token_sha256 = excluded.token_sha256, scopes = excluded.scopes,
                added_ms = excluded.added_ms, added_by = excluded.added_by, expires_ms = excluded.expires_ms,
                revoked_ms = excluded.revoked_ms";
        self.db.execute(
            text,
            params![
                token.name,
                token_sha256,
                token.scopes,
                token.added_ms,
                token.added_by,
                token.expires_ms,
                token.revoked_ms
            ],
        )?;
        Ok(true)
    }

    /// Takes a token away, with the sessions that it began; `false` when none of this name holds.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn revoke_token(&self, name: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.end_sessions_of(name)?;
        let text = "UPDATE tokens SET revoked_ms = $1 WHERE name = $2 AND revoked_ms IS NULL";
        Ok(self.db.execute(text, params![now_ms, name])? == 1)
    }

    /// Every token, by name.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM tokens t ORDER BY t.name");
        let mut query = self.db.prepare_cached(&text)?;
        let rows = query.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The token with this digest, if it holds.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn token(&self, token_sha256: &str, now_ms: i64) -> Result<Option<Token>, StoreError> {
        let text = format!("SELECT {COLUMNS} FROM tokens t WHERE t.token_sha256 = $1");
        let mut query = self.db.prepare_cached(&text)?;
        let found = query.query_row(params![token_sha256], read).optional()?;
        Ok(found.filter(|token| token.holds(now_ms)))
    }

    /// Begins a session with the token of this digest, and forgets those that ended, and of the token's very many the oldest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn begin_session(
        &self,
        session_sha256: &str,
        token_sha256: &str,
        (now_ms, expires_ms): (i64, i64),
    ) -> Result<(), StoreError> {
        let ended = "DELETE FROM sessions WHERE expires_ms <= $1";
        self.db.execute(ended, params![now_ms])?;
        let text = "INSERT INTO sessions (session_sha256, token_sha256, begun_ms, expires_ms)
             VALUES ($1, $2, $3, $4)";
        let bounds = params![session_sha256, token_sha256, now_ms, expires_ms];
        self.db.execute(text, bounds)?;
        let others = "DELETE FROM sessions WHERE token_sha256 = $1 AND session_sha256 <> $2 AND session_sha256 NOT IN
             (SELECT session_sha256 FROM sessions WHERE token_sha256 = $1 AND session_sha256 <> $2
               ORDER BY begun_ms DESC, session_sha256 LIMIT $3)";
        let bounds = params![token_sha256, session_sha256, MAX_SESSIONS - 1];
        self.db.execute(others, bounds)?;
        Ok(())
    }

    /// The token that the session of this digest was begun with, if both hold.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn token_of_session(
        &self,
        session_sha256: &str,
        now_ms: i64,
    ) -> Result<Option<Token>, StoreError> {
        let text = format!(
            "SELECT {COLUMNS} FROM sessions s JOIN tokens t ON t.token_sha256 = s.token_sha256
              WHERE s.session_sha256 = $1 AND s.expires_ms > $2"
        );
        let mut query = self.db.prepare_cached(&text)?;
        let bounds = params![session_sha256, now_ms];
        let found = query.query_row(bounds, read).optional()?;
        Ok(found.filter(|token| token.holds(now_ms)))
    }

    /// Ends a session, of a token or of a person.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn end_session(&self, session_sha256: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM sessions WHERE session_sha256 = $1";
        self.db.execute(text, params![session_sha256])?;
        self.end_person_session(session_sha256)
    }

    fn end_sessions_of(&self, name: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM sessions WHERE token_sha256 IN (SELECT token_sha256 FROM tokens WHERE name = $1)";
        self.db.execute(text, params![name])?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> Result<Token, DbError> {
    Ok(Token {
        name: row.get(0)?,
        scopes: row.get(1)?,
        added_ms: row.get(2)?,
        added_by: row.get(3)?,
        expires_ms: row.get(4)?,
        revoked_ms: row.get(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    fn token(name: &str, expires_ms: Option<i64>) -> Token {
        Token {
            name: name.to_owned(),
            scopes: "read".to_owned(),
            added_ms: 10,
            added_by: "a test".to_owned(),
            expires_ms,
            revoked_ms: None,
        }
    }

    #[test]
    fn a_token_holds_until_it_ends_or_is_taken_away_and_its_sessions_with_it() {
        let mut store = Store::in_memory().unwrap();
        let write = |work: &dyn Fn(&Session<'_>) -> Result<bool, StoreError>, store: &mut Store| {
            store.write(|session| work(session)).unwrap()
        };
        assert!(write(
            &|s| s.add_token(&token("ann", Some(100)), "d1", false),
            &mut store
        ));
        assert!(
            !write(
                &|s| s.add_token(&token("ann", None), "d2", false),
                &mut store
            ),
            "the one that holds stays"
        );
        let begun = |session: &Session<'_>| {
            session
                .begin_session("s1", "d1", (10, 1_000))
                .map(|()| true)
        };
        assert!(write(&begun, &mut store));
        let holds = |store: &mut Store, at: i64| {
            store
                .read(|session| {
                    let by_token = session.token("d1", at)?.is_some();
                    let by_session = session.token_of_session("s1", at)?.is_some();
                    Ok::<_, StoreError>((by_token, by_session))
                })
                .unwrap()
        };
        assert_eq!(holds(&mut store, 99), (true, true));
        assert_eq!(holds(&mut store, 100), (false, false), "it ended by itself");
        assert!(write(&|s| s.revoke_token("ann", 50), &mut store));
        assert_eq!(holds(&mut store, 50), (false, false));
        assert!(!write(&|s| s.revoke_token("ann", 51), &mut store));
        assert!(
            write(
                &|s| s.add_token(&token("ann", None), "d2", false),
                &mut store
            ),
            "its name is free again"
        );
        assert_eq!(holds(&mut store, 60), (false, false), "another token");
    }

    #[test]
    fn a_session_ends_at_its_time_and_when_its_token_is_replaced() {
        let mut store = Store::in_memory().unwrap();
        let of = |store: &mut Store, at: i64| {
            store
                .read(|session| session.token_of_session("s1", at))
                .unwrap()
        };
        store
            .write(|session| {
                session.add_token(&token("ann", None), "d1", false)?;
                session.begin_session("s1", "d1", (10, 20))
            })
            .unwrap();
        assert_eq!(of(&mut store, 19).unwrap().name, "ann");
        assert_eq!(of(&mut store, 20), None);
        store
            .write(|session| session.add_token(&token("ann", None), "d2", true))
            .unwrap();
        assert_eq!(of(&mut store, 19), None);
    }

    #[test]
    fn a_token_has_a_bounded_number_of_sessions_and_the_oldest_ends() {
        let mut store = Store::in_memory().unwrap();
        let begin = |store: &mut Store, name: &str, token: &str, at: i64| {
            store
                .write(|session| session.begin_session(name, token, (at, 1_000)))
                .unwrap();
        };
        store
            .write(|session| {
                session.add_token(&token("ann", None), "d1", false)?;
                session.add_token(&token("bob", None), "d2", false)
            })
            .unwrap();
        begin(&mut store, "of-bob", "d2", 1);
        for at in 0..MAX_SESSIONS {
            begin(&mut store, &format!("s{at}"), "d1", at);
        }
        // The clock was set back: what has just begun does not end at once.
        begin(&mut store, "last", "d1", -5);
        let holds = |name: &str, store: &mut Store| {
            let found = store.read(|session| session.token_of_session(name, 100));
            found.unwrap().is_some()
        };
        let known = ["of-bob", "s0", "s1", "last"].map(|name| holds(name, &mut store));
        assert_eq!(known, [true, false, true, true]);
    }
}
