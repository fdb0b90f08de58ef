-- What format 2 has and format 1 had not; titles are filled in by the code. Do not edit: it makes format 2, not the newest.
ALTER TABLE sources ADD COLUMN rules TEXT NOT NULL DEFAULT '';

ALTER TABLE documents ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE documents ADD COLUMN connector TEXT;
ALTER TABLE documents ADD COLUMN url TEXT;
ALTER TABLE documents ADD COLUMN updated_at INTEGER;
ALTER TABLE documents ADD COLUMN updated_from TEXT CHECK ((updated_from IS NULL) = (updated_at IS NULL));
ALTER TABLE documents ADD COLUMN labels TEXT NOT NULL DEFAULT '[]';
ALTER TABLE documents ADD COLUMN language TEXT;

DROP VIEW entries;
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

-- What the index holds of these documents lacks the new columns.
UPDATE documents SET indexed = 0 WHERE indexed = 1;
UPDATE state SET generation = generation + 1;
