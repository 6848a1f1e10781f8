-- Sites that a bundle wants another config for than the rest of its stream.
CREATE TABLE bundle_overlays (
    role           TEXT NOT NULL,
    number         BIGINT NOT NULL,
    assignment     TEXT NOT NULL,
    site           TEXT NOT NULL,
    config_version TEXT NOT NULL,
    PRIMARY KEY (role, number, assignment, site)
);
