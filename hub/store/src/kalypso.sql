-- Kalypso's ten tables, as views of what the hub holds: for dashboards and reports that read Kalypso's observability hub. They hold
-- nothing of their own and are made again when the hub's tables change; PostgreSQL only.
CREATE SCHEMA IF NOT EXISTS kalypso;

-- A number for a key: the same each time, and no larger than every reader of JSON can hold.
CREATE OR REPLACE FUNCTION kalypso.id(key TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN hashtextextended(key, 0) & 4503599627370495;

-- Milliseconds as a time without a zone, which is UTC.
CREATE OR REPLACE FUNCTION kalypso.at(ms BIGINT) RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN TIMESTAMP '1970-01-01' + ms * INTERVAL '1 millisecond';

-- Bundles that count, each with the commit that stands for it, and when it was signed: later than every one before.
CREATE OR REPLACE VIEW kalypso.outhaul_bundle AS
    SELECT role, number, environment, cluster_type, base_commit, recipients, reconciler,
           SUBSTR(index_digest, 8) AS gitops_commit_id,
           MAX(issued_ms) OVER (PARTITION BY role ORDER BY number) AS issued_ms,
           number = MAX(number) OVER (PARTITION BY role) AS is_newest
      FROM bundles WHERE taken_back = 0;

-- What the newest bundle of each stream wants somewhere.
CREATE OR REPLACE VIEW kalypso.outhaul_target AS
    SELECT b.role, b.environment, b.cluster_type, a.assignment, a.workspace, a.workload, b.issued_ms,
           'outhaul/' || b.environment || '/' || b.cluster_type || '/' || a.assignment AS endpoint
      FROM kalypso.outhaul_bundle b
      JOIN bundle_assignments a ON a.role = b.role AND a.number = b.number
     WHERE b.is_newest;

-- What each site should run: the assignments of the newest bundle that is for it.
CREATE OR REPLACE VIEW kalypso.outhaul_subscription AS
    SELECT s.site, s.enrolled_ms, t.role, t.assignment, t.endpoint, n.reconciler, n.gitops_commit_id, n.issued_ms
      FROM sites s
      JOIN LATERAL (SELECT b.* FROM kalypso.outhaul_bundle b
                     WHERE b.role = s.role
                       AND (b.recipients = '[]' OR b.recipients::jsonb ? s.site)
                     ORDER BY b.number DESC LIMIT 1) n ON TRUE
      JOIN bundle_assignments a ON a.role = n.role AND a.number = n.number
       AND (a.sites IS NULL OR a.sites::jsonb ? s.site)
      JOIN kalypso.outhaul_target t ON t.role = a.role AND t.assignment = a.assignment
     WHERE s.revoked_ms IS NULL;

-- What each site told last of each bundle, per assignment. What it runs now is the newest of them, whatever else it told later.
CREATE OR REPLACE VIEW kalypso.outhaul_observation AS
    SELECT site, assignment, gitops_commit_id, status, message,
           CASE WHEN is_running THEN received_ms + 1 ELSE LEAST(received_ms, running_ms) END AS at_ms
      FROM (
        SELECT o.site, a.assignment, b.gitops_commit_id, a.message, r.received_ms, o.number = c.running AS is_running,
               w.received_ms AS running_ms,
               CASE WHEN o.state IN ('failed', 'rejected', 'reverted') OR a.status IN ('failed', 'drifted') THEN 'failure'
                    WHEN o.state IN ('active', 'superseded') AND a.status = 'compliant' THEN 'success'
                    ELSE 'in_progress' END AS status,
               ROW_NUMBER() OVER (PARTITION BY o.site, a.assignment, b.gitops_commit_id
                                  ORDER BY CASE WHEN o.number = c.running THEN 1 ELSE 0 END DESC, o.number DESC) AS place
          FROM current_states c
          JOIN observations o ON o.site = c.site AND o.epoch = c.epoch
          JOIN observed_assignments a ON a.site = o.site AND a.epoch = o.epoch AND a.number = o.number
          JOIN reports r ON r.site = o.site AND r.epoch = o.epoch AND r.number = o.number
          LEFT JOIN reports w ON w.site = c.site AND w.epoch = c.epoch AND w.number = c.running
          -- A cluster that follows the repository by itself names no bundle, but the commit that it was rendered from.
          JOIN LATERAL (SELECT n.gitops_commit_id FROM kalypso.outhaul_bundle n
                         WHERE n.role = o.role
                           AND (n.number = o.bundle_number OR (o.bundle_number = 0 AND n.base_commit = o.base_commit))
                         ORDER BY n.number DESC LIMIT 1) b ON TRUE) AS told
     WHERE place = 1;

CREATE OR REPLACE VIEW kalypso.workspace AS
    SELECT kalypso.id(name) AS id, name, name AS description, kalypso.at(since_ms) AS created_on, 'outhaul'::TEXT AS created_by,
           kalypso.at(since_ms) AS updated_on, 'outhaul'::TEXT AS updated_by
      FROM (SELECT name, MIN(since_ms) AS since_ms FROM (
              SELECT workspace AS name, issued_ms AS since_ms FROM kalypso.outhaul_target
              UNION ALL SELECT workspace, at_ms FROM kalypso_descriptors) AS named GROUP BY name) AS known;

-- Outhaul has no applications between workspaces and workloads: each workload is one.
CREATE OR REPLACE VIEW kalypso.application AS
    SELECT kalypso.id(workspace || '/' || name) AS id, name, name AS description, kalypso.id(workspace) AS workspace_id,
           kalypso.at(since_ms) AS created_on, 'outhaul'::TEXT AS created_by, kalypso.at(since_ms) AS updated_on,
           'outhaul'::TEXT AS updated_by
      FROM (SELECT workspace, name, MIN(since_ms) AS since_ms FROM (
              SELECT workspace, workload AS name, issued_ms AS since_ms FROM kalypso.outhaul_target
              UNION ALL SELECT workspace, application, at_ms FROM kalypso_descriptors) AS named
             GROUP BY workspace, name) AS known;

CREATE OR REPLACE VIEW kalypso.workload AS
    SELECT kalypso.id(workspace || '/' || application || '/' || name) AS id, name, name AS description,
           'git'::TEXT AS source_storage_type, source_endpoint, kalypso.id(workspace || '/' || application) AS application_id,
           kalypso.at(since_ms) AS created_on, 'outhaul'::TEXT AS created_by, kalypso.at(since_ms) AS updated_on,
           'outhaul'::TEXT AS updated_by
      FROM (SELECT workspace, application, name, MAX(source_endpoint) AS source_endpoint, MIN(since_ms) AS since_ms FROM (
              SELECT workspace, workload AS application, workload AS name, NULL::TEXT AS source_endpoint, issued_ms AS since_ms
                FROM kalypso.outhaul_target
              UNION ALL SELECT workspace, application, workload, source_endpoint, at_ms FROM kalypso_descriptors) AS named
             GROUP BY workspace, application, name) AS known;

CREATE OR REPLACE VIEW kalypso.environment AS
    SELECT kalypso.id(name) AS id, name, name AS description, kalypso.at(since_ms) AS created_on, 'outhaul'::TEXT AS created_by,
           kalypso.at(since_ms) AS updated_on, 'outhaul'::TEXT AS updated_by
      FROM (SELECT name, MIN(since_ms) AS since_ms FROM (
              SELECT environment AS name, issued_ms AS since_ms FROM bundles
              UNION ALL SELECT environment, enrolled_ms FROM sites
              UNION ALL SELECT environment, at_ms FROM kalypso_descriptors) AS named GROUP BY name) AS known;

CREATE OR REPLACE VIEW kalypso.deployment_target AS
    SELECT kalypso.id(endpoint) AS id, assignment AS name, NULL::TEXT AS description,
           kalypso.id(workspace || '/' || workload || '/' || workload) AS workload_id, kalypso.id(environment) AS environment_id,
           'clusterType=' || cluster_type AS labels, 'git'::TEXT AS manifests_storage_type, endpoint AS manifests_endpoint,
           kalypso.at(issued_ms) AS created_on, 'outhaul'::TEXT AS created_by, kalypso.at(issued_ms) AS updated_on,
           'outhaul'::TEXT AS updated_by
      FROM kalypso.outhaul_target
    UNION ALL
    SELECT kalypso.id(manifests_endpoint), target, NULL, kalypso.id(workspace || '/' || application || '/' || workload),
           kalypso.id(environment), NULL, 'git', manifests_endpoint, kalypso.at(MIN(at_ms)), 'kalypso', kalypso.at(MAX(at_ms)), 'kalypso'
      FROM kalypso_descriptors
     GROUP BY manifests_endpoint, target, workspace, application, workload, environment;

-- What each bundle wants of the targets that there are: a version is the beginning of the digest of its config.
CREATE OR REPLACE VIEW kalypso.outhaul_scheduled AS
    SELECT t.endpoint, t.workspace, t.workload, b.gitops_commit_id, b.number, b.base_commit, b.issued_ms,
           SUBSTR(a.config_version, 8, 12) AS version
      FROM kalypso.outhaul_target t
      JOIN kalypso.outhaul_bundle b ON b.role = t.role
      JOIN bundle_assignments a ON a.role = b.role AND a.number = b.number AND a.assignment = t.assignment;

CREATE OR REPLACE VIEW kalypso.workload_version AS
    SELECT kalypso.id(workspace || '/' || workload || '/' || workload || '@' || version) AS id, version,
           MIN(number)::TEXT AS build_id, (ARRAY_AGG(base_commit ORDER BY number))[1] AS build_commit_id,
           kalypso.id(workspace || '/' || workload || '/' || workload) AS workload_id, kalypso.at(MIN(issued_ms)) AS created_on,
           'outhaul'::TEXT AS created_by
      FROM kalypso.outhaul_scheduled GROUP BY workspace, workload, version
    UNION ALL
    SELECT kalypso.id(workspace || '/' || application || '/' || workload || '@' || version), version, MAX(build), MAX(build_commit),
           kalypso.id(workspace || '/' || application || '/' || workload), kalypso.at(MIN(at_ms)), 'kalypso'
      FROM kalypso_descriptors GROUP BY workspace, application, workload, version;

CREATE OR REPLACE VIEW kalypso.deployment_assignment AS
    SELECT kalypso.id(endpoint || '@' || gitops_commit_id) AS id, kalypso.id(endpoint) AS deployment_target_id,
           kalypso.id(workspace || '/' || workload || '/' || workload || '@' || version) AS workload_version_id, gitops_commit_id,
           -- Two of one second are told apart by their number.
           kalypso.at(issued_ms) + number * INTERVAL '1 microsecond' AS created_on, 'outhaul'::TEXT AS created_by
      FROM kalypso.outhaul_scheduled
    UNION ALL
    SELECT kalypso.id(manifests_endpoint || '@' || commit_id || '@' || version), kalypso.id(manifests_endpoint),
           kalypso.id(workspace || '/' || application || '/' || workload || '@' || version), commit_id, kalypso.at(at_ms), 'kalypso'
      FROM kalypso_descriptors;

CREATE OR REPLACE VIEW kalypso.host AS
    SELECT kalypso.id(name) AS id, name, NULL::TEXT AS description, host_type, labels, kalypso.at(since_ms) AS created_on,
           'outhaul'::TEXT AS created_by, kalypso.at(since_ms) AS updated_on, 'outhaul'::TEXT AS updated_by
      FROM (SELECT site AS name, cluster_type AS host_type, 'environment=' || environment AS labels, enrolled_ms AS since_ms
              FROM sites WHERE revoked_ms IS NULL
            UNION ALL
            SELECT host, 'K8s-cluster', NULL, MIN(at_ms) FROM kalypso_reconcilers
             WHERE host NOT IN (SELECT site FROM sites WHERE revoked_ms IS NULL) GROUP BY host) AS known;

CREATE OR REPLACE VIEW kalypso.reconciler AS
    SELECT kalypso.id(site || '/' || endpoint) AS id, site || '.' || assignment AS name, kalypso.id(site) AS host_id,
           NULL::TEXT AS description, reconciler AS reconciler_type, NULL::TEXT AS labels, 'git'::TEXT AS manifests_storage_type,
           endpoint AS manifests_endpoint, kalypso.at(enrolled_ms) AS created_on, 'outhaul'::TEXT AS created_by,
           kalypso.at(enrolled_ms) AS updated_on, 'outhaul'::TEXT AS updated_by
      FROM kalypso.outhaul_subscription
    UNION ALL
    SELECT kalypso.id(host || '/' || reconciler), reconciler, kalypso.id(host), NULL, MAX(kind), NULL, 'git',
           (ARRAY_AGG(endpoint ORDER BY at_ms DESC))[1], kalypso.at(MIN(at_ms)), 'kalypso', kalypso.at(MAX(at_ms)), 'kalypso'
      FROM kalypso_reconcilers GROUP BY host, reconciler;

-- A site that told nothing of what it should run is there, too: as one of which nothing has arrived yet. So is an imported reconciler
-- without a deployment, with the commit that is wanted where it is.
CREATE OR REPLACE VIEW kalypso.deployment AS
    SELECT kalypso.id(s.site || '/' || s.endpoint || '@' || COALESCE(o.gitops_commit_id, s.gitops_commit_id)) AS id,
           COALESCE(o.gitops_commit_id, s.gitops_commit_id) AS gitops_commit_id,
           kalypso.id(s.site || '/' || s.endpoint) AS reconciler_id, COALESCE(o.status, 'in_progress') AS status,
           CASE WHEN o.site IS NULL THEN 'no report of it yet' ELSE o.message END AS status_message,
           kalypso.at(COALESCE(o.at_ms, s.issued_ms)) AS created_on, 'outhaul'::TEXT AS created_by,
           kalypso.at(COALESCE(o.at_ms, s.issued_ms)) AS updated_on, 'outhaul'::TEXT AS updated_by
      FROM kalypso.outhaul_subscription s
      LEFT JOIN kalypso.outhaul_observation o ON o.site = s.site AND o.assignment = s.assignment
    UNION ALL
    SELECT kalypso.id(host || '/' || reconciler || '@' || commit_id), commit_id, kalypso.id(host || '/' || reconciler), status, message,
           kalypso.at(at_ms), 'kalypso', kalypso.at(at_ms), 'kalypso'
      FROM kalypso_reconcilers WHERE commit_id <> ''
    UNION ALL
    SELECT kalypso.id(k.host || '/' || k.reconciler || '@'),
           COALESCE((SELECT d.commit_id FROM kalypso_descriptors d WHERE d.manifests_endpoint = k.endpoint
                      ORDER BY d.at_ms DESC, d.commit_id LIMIT 1), ''),
           kalypso.id(k.host || '/' || k.reconciler), 'in_progress', 'no report of it yet', kalypso.at(k.at_ms), 'kalypso',
           kalypso.at(k.at_ms), 'kalypso'
      FROM kalypso_reconcilers k
     WHERE k.commit_id = '' AND NOT EXISTS (SELECT 1 FROM kalypso_reconcilers n
                                             WHERE n.host = k.host AND n.reconciler = k.reconciler AND n.commit_id <> '');
