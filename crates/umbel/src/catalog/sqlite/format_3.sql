-- A catalog as format 3 wrote it. Do not edit: it must open for as long as OLDEST_READABLE is at most 3.
PRAGMA application_id = 0x556d626c;
PRAGMA user_version = 3;

-- One row: the counts that `describe` answers with, kept by the triggers below, and the rule that pairs were found under. The
-- columns from `pending_clusters` on are as a migration can add them.
CREATE TABLE state (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL DEFAULT 0,
    documents INTEGER NOT NULL DEFAULT 0,
    leaves INTEGER NOT NULL DEFAULT 0,
    not_indexed INTEGER NOT NULL DEFAULT 0,
    pending_deletes INTEGER NOT NULL DEFAULT 0,
    pending_clusters INTEGER NOT NULL DEFAULT 0,
    compared_by TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO state (id) VALUES (1);

CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- `root` is the path's bytes: a folder's name need not be Unicode. `rules` is TOML.
CREATE TABLE sources (
    name TEXT PRIMARY KEY,
    root BLOB NOT NULL,
    rules TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- What `list` reads. AUTOINCREMENT: an id is never used again. `updated_at` is in seconds since 1970 in UTC, `labels` a JSON
-- array. The columns from `title` on are as a migration can add them: last, and with a default where they are not null.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL REFERENCES sources (name),
    path TEXT NOT NULL,
    long_name TEXT NOT NULL GENERATED ALWAYS AS (source || '/' || path) VIRTUAL,
    fingerprint BLOB NOT NULL,
    leaves INTEGER NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0,
    title TEXT NOT NULL DEFAULT '',
    connector TEXT,
    url TEXT,
    updated_at INTEGER,
    updated_from TEXT CHECK ((updated_from IS NULL) = (updated_at IS NULL)),
    labels TEXT NOT NULL DEFAULT '[]',
    language TEXT,
    UNIQUE (source, path)
) STRICT;
CREATE INDEX documents_path ON documents (path, source);
CREATE INDEX documents_long_name ON documents (long_name);
CREATE INDEX documents_not_indexed ON documents (id) WHERE indexed = 0;

-- The one place that holds a text. `shape` is the rest of the document, `leaf_ids` 16 bytes a leaf.
CREATE TABLE contents (
    document INTEGER PRIMARY KEY REFERENCES documents (id) ON DELETE CASCADE,
    leaf_ids BLOB NOT NULL,
    shape BLOB NOT NULL,
    text TEXT NOT NULL
) STRICT;

-- Leaves of no document that the index may still hold.
CREATE TABLE pending_deletes (leaf BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE models (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

-- Little-endian 32-bit floats, by the model and the hash of the text that was embedded.
CREATE TABLE embeddings (
    model INTEGER NOT NULL REFERENCES models (id),
    text_hash BLOB NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (model, text_hash)
) STRICT;

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

-- Which documents go by their long name: those whose path another source holds too, and those whose path is the long
-- name of a document that goes by it.
CREATE VIEW named AS
SELECT *,
    CASE
        WHEN EXISTS (SELECT 1 FROM documents o WHERE o.path = d.path AND o.source <> d.source) THEN 1
        WHEN NOT EXISTS (SELECT 1 FROM documents o WHERE o.long_name = d.path) THEN 0
        ELSE EXISTS (
            WITH RECURSIVE clash (path, source) AS (
                SELECT o.path, o.source FROM documents o WHERE o.long_name = d.path
                UNION
                SELECT o.path, o.source FROM clash JOIN documents o ON o.long_name = clash.path
            )
            SELECT 1 FROM clash JOIN documents o ON o.path = clash.path AND o.source <> clash.source
        )
    END AS goes_by_long_name
FROM documents d;

-- What is left are long names that two documents share, as of sources `a` and `a/b`: an empty part keeps them apart.
CREATE VIEW entries AS
SELECT id, source, path, fingerprint, leaves, indexed, title, connector, url, updated_at, updated_from, labels, language,
    CASE
        WHEN NOT goes_by_long_name THEN path
        WHEN NOT EXISTS (
            SELECT 1 FROM named o WHERE o.long_name = n.long_name AND o.id <> n.id AND o.goes_by_long_name
        ) THEN long_name
        ELSE source || '//' || path
    END AS name
FROM named n;

CREATE TRIGGER documents_insert AFTER INSERT ON documents BEGIN
    UPDATE state SET documents = documents + 1, leaves = leaves + NEW.leaves, not_indexed = not_indexed + (NEW.indexed = 0);
END;
CREATE TRIGGER documents_update AFTER UPDATE ON documents BEGIN
    UPDATE state SET leaves = leaves - OLD.leaves + NEW.leaves,
        not_indexed = not_indexed - (OLD.indexed = 0) + (NEW.indexed = 0);
END;
CREATE TRIGGER documents_delete AFTER DELETE ON documents BEGIN
    UPDATE state SET documents = documents - 1, leaves = leaves - OLD.leaves, not_indexed = not_indexed - (OLD.indexed = 0);
END;
CREATE TRIGGER pending_deletes_insert AFTER INSERT ON pending_deletes BEGIN
    UPDATE state SET pending_deletes = pending_deletes + 1;
END;
CREATE TRIGGER pending_deletes_delete AFTER DELETE ON pending_deletes BEGIN
    UPDATE state SET pending_deletes = pending_deletes - 1;
END;
CREATE TRIGGER pending_clusters_insert AFTER INSERT ON pending_clusters BEGIN
    UPDATE state SET pending_clusters = pending_clusters + 1;
END;
CREATE TRIGGER pending_clusters_delete AFTER DELETE ON pending_clusters BEGIN
    UPDATE state SET pending_clusters = pending_clusters - 1;
END;

INSERT INTO sources (name, root, rules) VALUES ('docs', x'2f64617461', 'connector = "wiki"' || char(10));
INSERT INTO documents (id, source, path, fingerprint, leaves, indexed, title, connector, url, updated_at, updated_from, labels, language)
VALUES (
    7, 'docs', 'a.md', x'0505050505050505050505050505050505050505050505050505050505050505', 2, 1,
    CAST(x'efbbbf2320c384' AS TEXT), 'wiki', 'https://example.org/a', 1714521600, 'front matter', '["a b","ä"]', 'en'
);
INSERT INTO contents (document, leaf_ids, shape, text)
VALUES (
    7,
    x'0101010101010101010101010101010102020202020202020202020202020202',
    x'02031207efbbbf2320c384020e6f64643a2060efbbbf2320c38460076f64643a206060030003100500020102000303070201000001000309100301000001000203070201010001010307010000091003020100010103070100010103070102c3840103070002020306000303030303030305010303050105030001000102c384050002010003090004',
    CAST(x'efbbbf2320c3840a0a6f6e652074776f0d0a' AS TEXT)
);
INSERT INTO documents (id, source, path, fingerprint, leaves)
VALUES (9, 'docs', 'b.md', x'0606060606060606060606060606060606060606060606060606060606060606', 0);
INSERT INTO contents (document, leaf_ids, shape, text) VALUES (9, x'', x'020000000000000000000000000001000001', '');
INSERT INTO pending_deletes (leaf) VALUES (x'03030303030303030303030303030303');
INSERT INTO settings (key, value) VALUES ('model', 'm');
INSERT INTO models (id, name) VALUES (1, 'm');
INSERT INTO embeddings (model, text_hash, vector) VALUES (1, x'0404040404040404040404040404040404040404040404040404040404040404', x'0000803f000000c0');
INSERT INTO runs (id, method, at, leaves, clusters, members, reverted)
VALUES
    (4, '{"method":"near","jaccard":0.8}', 1714521600, 2, 1, 2, 0),
    (5, '{"method":"near","jaccard":0.8}', 1714521600, 2, 1, 2, 1);
INSERT INTO members (run, leaf, cluster, document)
VALUES
    (4, x'01010101010101010101010101010101', x'08080808080808080808080808080808', 7),
    (4, x'02020202020202020202020202020202', x'08080808080808080808080808080808', 7);
INSERT INTO pending_clusters (leaf) VALUES (x'02020202020202020202020202020202');
INSERT INTO sketches (leaf, document, words, sketch, compared)
VALUES (x'01010101010101010101010101010101', 7, x'06060606060606060606060606060606', x'010203', 1);
INSERT INTO pairs (a, b, similarity) VALUES (x'06060606060606060606060606060606', x'07070707070707070707070707070707', 0.5);
UPDATE state SET generation = 3, compared_by = 'near';
