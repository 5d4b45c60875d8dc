-- The stored previews of plans.
SELECT 1
