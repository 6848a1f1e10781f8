//! People who log in at an identity provider: whose name is whose, and their sessions.
//!
//! What comes in: names, what the provider calls these people, and digests. What goes out: who a session is of, as long as it
//! holds. A name belongs to the first who had it: someone else whom the provider calls the same later does not get it. What the
//! kept facts allow is not known here, and no session's secret is ever stored.

use serde::Serialize;

use super::db::{DbError, OptionalExtension as _, Row, params};
use super::tokens::MAX_SESSIONS;
use super::{Session, StoreError};

/// Someone who logged in at the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownPerson {
    /// The name under which they act.
    pub name: String,
    /// The provider.
    pub issuer: String,
    /// What it calls them, for good.
    pub subject: String,
    /// When they logged in first, milliseconds since 1970.
    pub added_ms: i64,
    /// When they logged in last.
    pub seen_ms: i64,
    /// How many sessions they have.
    pub sessions: i64,
    /// When the last of these ends.
    pub until_ms: Option<i64>,
}

/// A session of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonSession {
    /// The name under which they act.
    pub name: String,
    /// The provider.
    pub issuer: String,
    /// What it calls them, for good.
    pub subject: String,
    /// What the hub was called there.
    pub client: String,
    /// What the provider stated, as text.
    pub facts: String,
}

/// Whether a session of a person began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonLogin {
    /// It did.
    Begun,
    /// The name is another account's; nothing was changed.
    NameTaken,
    /// The account has another name here, under which it acted before; nothing was changed. One account is one person, whatever the
    /// provider calls it later: else it would approve as two.
    OtherName(String),
}

impl Session<'_> {
    /// Notes that a login was used, until it ends anyway; `false` when it was before, at this process or another.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn use_login(
        &self,
        login_sha256: &str,
        (now_ms, expires_ms): (i64, i64),
    ) -> Result<bool, StoreError> {
        let ended = "DELETE FROM used_logins WHERE expires_ms <= $1";
        self.db.execute(ended, params![now_ms])?;
        let text = "INSERT INTO used_logins (login_sha256, expires_ms) VALUES ($1, $2)
             ON CONFLICT (login_sha256) DO NOTHING";
        Ok(self.db.execute(text, params![login_sha256, expires_ms])? == 1)
    }

    /// Begins a session of a person, and forgets those that ended, and of the person's very many the oldest.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn begin_person_session(
        &self,
        session_sha256: &str,
        person: &PersonSession,
        (now_ms, expires_ms): (i64, i64),
    ) -> Result<PersonLogin, StoreError> {
        let holder = "SELECT issuer, subject FROM people WHERE name = $1";
        let holder = self.db.query_row(holder, params![person.name], |row| {
            Ok::<_, DbError>((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        let asks = (&person.issuer, &person.subject);
        if holder
            .optional()?
            .is_some_and(|(issuer, subject)| (&issuer, &subject) != asks)
        {
            return Ok(PersonLogin::NameTaken);
        }
        let other = "SELECT name FROM people WHERE issuer = $1 AND subject = $2 AND name <> $3";
        let other = self.db.query_row(
            other,
            params![person.issuer, person.subject, person.name],
            |row| row.get::<_, String>(0),
        );
        if let Some(name) = other.optional()? {
            return Ok(PersonLogin::OtherName(name));
        }
        let text = "INSERT INTO people (name, issuer, subject, added_ms, seen_ms) VALUES ($1, $2, $3, $4, $4)
             ON CONFLICT (name) DO UPDATE SET seen_ms = excluded.seen_ms";
        // Nobody else writes between this and what was read above: there is one writer at a time, on a server as well.
        let bounds = params![person.name, person.issuer, person.subject, now_ms];
        self.db.execute(text, bounds)?;
        let ended = "DELETE FROM person_sessions WHERE expires_ms <= $1";
        self.db.execute(ended, params![now_ms])?;
        let text = "INSERT INTO person_sessions (session_sha256, name, client, facts, begun_ms, expires_ms)
             VALUES ($1, $2, $3, $4, $5, $6)";
        self.db.execute(
            text,
            params![
                session_sha256,
                person.name,
                person.client,
                person.facts,
                now_ms,
                expires_ms
            ],
        )?;
        let others = "DELETE FROM person_sessions WHERE name = $1 AND session_sha256 <> $2 AND session_sha256 NOT IN
             (SELECT session_sha256 FROM person_sessions WHERE name = $1 AND session_sha256 <> $2
               ORDER BY begun_ms DESC, session_sha256 LIMIT $3)";
        let bounds = params![person.name, session_sha256, MAX_SESSIONS - 1];
        self.db.execute(others, bounds)?;
        Ok(PersonLogin::Begun)
    }

    /// Whose the session of this digest is, begun at most `longest_ms` ago, if it holds.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn person_of_session(
        &self,
        session_sha256: &str,
        (now_ms, longest_ms): (i64, i64),
    ) -> Result<Option<PersonSession>, StoreError> {
        let text = "SELECT p.name, p.issuer, p.subject, s.client, s.facts
               FROM person_sessions s JOIN people p ON p.name = s.name
              WHERE s.session_sha256 = $1 AND s.expires_ms > $2 AND s.begun_ms > $3";
        let mut query = self.db.prepare_cached(text)?;
        let since_ms = now_ms.saturating_sub(longest_ms);
        let bounds = params![session_sha256, now_ms, since_ms];
        let read = |row: &Row<'_>| {
            Ok::<_, DbError>(PersonSession {
                name: row.get(0)?,
                issuer: row.get(1)?,
                subject: row.get(2)?,
                client: row.get(3)?,
                facts: row.get(4)?,
            })
        };
        Ok(query.query_row(bounds, read).optional()?)
    }

    /// Everyone who logged in, by name, with the sessions that hold at `now_ms`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn people(&self, now_ms: i64) -> Result<Vec<KnownPerson>, StoreError> {
        let text = "SELECT p.name, p.issuer, p.subject, p.added_ms, p.seen_ms, COUNT(s.name), MAX(s.expires_ms)
               FROM people p LEFT JOIN person_sessions s ON s.name = p.name AND s.expires_ms > $1
              GROUP BY p.name, p.issuer, p.subject, p.added_ms, p.seen_ms ORDER BY p.name";
        let mut query = self.db.prepare_cached(text)?;
        let rows = query.query_map(params![now_ms], |row| {
            Ok::<_, DbError>(KnownPerson {
                name: row.get(0)?,
                issuer: row.get(1)?,
                subject: row.get(2)?,
                added_ms: row.get(3)?,
                seen_ms: row.get(4)?,
                sessions: row.get(5)?,
                until_ms: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Ends all sessions of a person; how many there were, or `None` when nobody of this name ever logged in.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn end_sessions_of_person(&self, name: &str) -> Result<Option<usize>, StoreError> {
        let known = "SELECT 1 FROM people WHERE name = $1";
        let found = self
            .db
            .query_row(known, params![name], |row| row.get::<_, i64>(0));
        if found.optional()?.is_none() {
            return Ok(None);
        }
        let text = "DELETE FROM person_sessions WHERE name = $1";
        Ok(Some(self.db.execute(text, params![name])?))
    }

    /// Forgets whose a name is, with the sessions; `false` when nobody of this name ever logged in.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn forget_person(&self, name: &str) -> Result<bool, StoreError> {
        self.end_sessions_of_person(name)?;
        let text = "DELETE FROM people WHERE name = $1";
        Ok(self.db.execute(text, params![name])? == 1)
    }

    /// Ends a session of a person.
    pub(super) fn end_person_session(&self, session_sha256: &str) -> Result<(), StoreError> {
        let text = "DELETE FROM person_sessions WHERE session_sha256 = $1";
        self.db.execute(text, params![session_sha256])?;
        Ok(())
    }
}
