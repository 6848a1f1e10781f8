-- The only sites that an assignment of a bundle is for, as a list of names; null for every site.
ALTER TABLE bundle_assignments ADD COLUMN sites TEXT;
