-- Which reports tell each site's present state, kept as reports come in: answering no longer reads history.
-- All of it follows from the tables of what was reported. `running` and `attempt` are numbers of reports of `epoch`;
-- `attempt_left` says that the attempt stands in `reverts`, not in `observations`.
CREATE TABLE current_states (
    site         TEXT PRIMARY KEY,
    epoch        TEXT NOT NULL,
    newest       BIGINT NOT NULL,
    running      BIGINT,
    attempt      BIGINT,
    attempt_left BIGINT NOT NULL
);
-- What is not a look at what runs: few rows, in which the attempt above the running bundle is found.
CREATE INDEX observations_on_the_way ON observations (site, epoch, bundle_number)
    WHERE state NOT IN ('active', 'superseded');
