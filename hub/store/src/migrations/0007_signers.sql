-- Which keys of its stream signed a bundle (a JSON list of public keys), and whether one of them was taken away
-- from the stream since. Of bundles that are on record already nobody knows the first.
ALTER TABLE bundles ADD COLUMN signers TEXT NOT NULL DEFAULT '[]';
ALTER TABLE bundles ADD COLUMN taken_back BIGINT NOT NULL DEFAULT 0;
