-- Where each site that is not revoked stands in its stream, kept as reports and registrations come in: how many sites run a
-- bundle is counted along an index, whatever the size of the fleet. All of it follows from the tables of sites and of what was
-- reported. `running` and `attempt` are numbers of bundles of the site's own stream, 0 for none; `attempt` is above `running`.
CREATE TABLE stream_sites (
    site          TEXT PRIMARY KEY,
    role          TEXT NOT NULL,
    reported      BIGINT NOT NULL,
    running       BIGINT NOT NULL,
    running_index TEXT NOT NULL,
    attempt       BIGINT NOT NULL,
    attempt_state TEXT NOT NULL
);
CREATE INDEX stream_sites_by_bundle
    ON stream_sites (role, reported, running, running_index, attempt, attempt_state, site);
