-- Entries of `gate_acts` may be outcomes of checks, which a program of before cannot read: it refuses tables of this version.
-- A gate looks up entries by their kind, and the outcomes of one commit.
CREATE INDEX gate_acts_by_kind ON gate_acts (kind, environment, base_commit, chosen, by_name, id);
