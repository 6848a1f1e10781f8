-- The commit of the environment's own branch that what a report states was rendered from; null in rows of a program of before, which did
-- not keep it: a bundle states it itself, and a cluster that follows the platform repository reports it again.
ALTER TABLE observations ADD COLUMN environment_commit TEXT;
