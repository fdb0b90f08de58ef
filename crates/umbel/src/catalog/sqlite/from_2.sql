-- What format 3 has and format 2 had not. Do not edit: it makes format 3, not the newest.
ALTER TABLE state ADD COLUMN pending_clusters INTEGER NOT NULL DEFAULT 0;
ALTER TABLE state ADD COLUMN compared_by TEXT NOT NULL DEFAULT '';

-- Runs that looked for duplicates. The newest one that was not reverted is in effect. `method` is JSON, `at` in seconds since
-- 1970 in UTC.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    method TEXT NOT NULL,
    at INTEGER NOT NULL,
    leaves INTEGER NOT NULL,
    clusters INTEGER NOT NULL,
    members INTEGER NOT NULL,
    reverted INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE VIEW in_effect AS SELECT max(id) AS run FROM runs WHERE reverted = 0;

-- The leaves that are in a cluster of a run; no cluster has one alone.
CREATE TABLE members (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    leaf BLOB NOT NULL,
    cluster BLOB NOT NULL,
    document INTEGER NOT NULL REFERENCES documents (id),
    PRIMARY KEY (run, leaf)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_cluster ON members (run, cluster);
CREATE INDEX members_document ON members (document);

-- Leaves for which the index may still hold another cluster.
CREATE TABLE pending_clusters (leaf BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;

-- What is kept of leaves to find their duplicates; `words` tells wordings apart.
CREATE TABLE sketches (
    leaf BLOB PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    words BLOB NOT NULL,
    sketch BLOB NOT NULL,
    compared INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sketches_document ON sketches (document);
CREATE INDEX sketches_words ON sketches (words);

-- Wordings that were found to be similar under the rule that `state` names.
CREATE TABLE pairs (
    a BLOB NOT NULL,
    b BLOB NOT NULL,
    similarity REAL NOT NULL,
    PRIMARY KEY (a, b)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER pending_clusters_insert AFTER INSERT ON pending_clusters BEGIN
    UPDATE state SET pending_clusters = pending_clusters + 1;
END;
CREATE TRIGGER pending_clusters_delete AFTER DELETE ON pending_clusters BEGIN
    UPDATE state SET pending_clusters = pending_clusters - 1;
END;
