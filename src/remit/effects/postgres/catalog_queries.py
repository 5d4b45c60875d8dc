"""Queries of the server's catalog. They find what an object of the database makes the server run by itself.

Each row of the longer queries has four columns: the kind of the object that was found, its number, its parse tree if it
has one, and a text that says where it was found.
"""

from typing import Final

OBJECTS: Final = """
SELECT 'function', oid, oid FROM pg_proc WHERE oid = ANY ($1::oid[])
UNION ALL SELECT 'function', o.oid, f FROM pg_operator o, unnest(ARRAY[oprcode, oprrest, oprjoin]::oid[]) f
  WHERE o.oid = ANY ($1::oid[]) AND f <> 0
UNION ALL SELECT 'operator', o.oid, x FROM pg_operator o, unnest(ARRAY[oprcom, oprnegate]) x
  WHERE o.oid = ANY ($1::oid[]) AND x >= 16384
UNION ALL SELECT 'function', o.amopopr, a.amproc::oid FROM pg_amop o JOIN pg_amproc a ON a.amprocfamily = o.amopfamily
  JOIN pg_am m ON m.oid = o.amopmethod
  WHERE o.amopopr = ANY ($1::oid[]) AND a.amproc::oid >= 16384 AND m.amname IN ('btree', 'hash')
UNION ALL SELECT 'type', oid, oid FROM pg_type WHERE oid = ANY ($1::oid[])
UNION ALL SELECT 'read', oid, oid FROM pg_class WHERE oid = ANY ($1::oid[])
"""
TYPES: Final = """
SELECT 'type', u, NULL, 'the type ' || t.oid::regtype FROM pg_type t, unnest(ARRAY[typbasetype, typelem]) u
  WHERE t.oid = ANY ($1::oid[]) AND u <> 0
UNION ALL SELECT 'type', a.atttypid, NULL, 'the type ' || t.oid::regtype FROM pg_type t
  JOIN pg_attribute a ON a.attrelid = t.typrelid WHERE t.oid = ANY ($1::oid[]) AND NOT a.attisdropped AND a.attnum > 0
UNION ALL SELECT 'function', f, NULL, 'the type ' || t.oid::regtype FROM pg_type t,
  unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout]::oid[]) f
  WHERE t.oid = ANY ($1::oid[]) AND f >= 16384
UNION ALL SELECT 'function', f, NULL, 'the type ' || r.rngtypid::regtype FROM pg_range r,
  unnest(ARRAY[rngcanonical, rngsubdiff]::oid[]) f WHERE r.rngtypid = ANY ($1::oid[]) AND f <> 0
UNION ALL SELECT 'type', r.rngsubtype, NULL, 'the type ' || r.rngtypid::regtype FROM pg_range r
  WHERE r.rngtypid = ANY ($1::oid[])
UNION ALL SELECT 'function', a.amproc::oid, NULL, 'the type ' || r.rngtypid::regtype FROM pg_range r
  JOIN pg_opclass o ON o.oid = r.rngsubopc JOIN pg_amproc a ON a.amprocfamily = o.opcfamily
  WHERE r.rngtypid = ANY ($1::oid[]) AND a.amproc::oid >= 16384
UNION ALL SELECT 'function', a.amproc::oid, NULL, 'an operator class of ' || t.oid::regtype FROM pg_type t
  JOIN pg_amproc a ON t.oid IN (a.amproclefttype, a.amprocrighttype) JOIN pg_opfamily f ON f.oid = a.amprocfamily
  JOIN pg_am m ON m.oid = f.opfmethod
  WHERE t.oid = ANY ($1::oid[]) AND a.amproc::oid >= 16384 AND m.amname IN ('btree', 'hash')
UNION ALL SELECT 'operator', a.amopopr, NULL, 'an operator class of ' || t.oid::regtype FROM pg_type t
  JOIN pg_amop a ON t.oid IN (a.amoplefttype, a.amoprighttype) JOIN pg_am m ON m.oid = a.amopmethod
  WHERE t.oid = ANY ($1::oid[]) AND a.amopopr >= 16384 AND m.amname IN ('btree', 'hash')
UNION ALL SELECT 'tree', 0, c.conbin::text, 'a check of the domain ' || c.contypid::regtype FROM pg_constraint c
  WHERE c.contypid = ANY ($1::oid[]) AND c.conbin IS NOT NULL
UNION ALL SELECT 'tree', 0, t.typdefaultbin::text, 'the default of the domain ' || t.oid::regtype FROM pg_type t
  WHERE t.oid = ANY ($1::oid[]) AND t.typdefaultbin IS NOT NULL
"""
TYPES_SINCE_14: Final = """
SELECT 'type', r.rngtypid, NULL, 'the type ' || r.rngmultitypid::regtype FROM pg_range r
  WHERE r.rngmultitypid = ANY ($1::oid[])
UNION ALL SELECT 'function', t.typsubscript::oid, NULL, 'the type ' || t.oid::regtype FROM pg_type t
  WHERE t.oid = ANY ($1::oid[]) AND t.typsubscript::oid >= 16384
"""
READ: Final = """
SELECT 'tree', r.ev_class, r.ev_action::text, 'the view ' || r.ev_class::regclass FROM pg_rewrite r
  WHERE r.ev_class = ANY ($1::oid[]) AND r.ev_type = '1'
UNION ALL SELECT 'tree', 0, p.polqual::text, 'a row policy of ' || p.polrelid::regclass FROM pg_policy p
  WHERE p.polrelid = ANY ($1::oid[]) AND p.polqual IS NOT NULL
UNION ALL SELECT 'function', w.fdwhandler, NULL, 'the foreign table ' || t.ftrelid::regclass FROM pg_foreign_table t
  JOIN pg_foreign_server s ON s.oid = t.ftserver JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
  WHERE t.ftrelid = ANY ($1::oid[])
UNION ALL SELECT 'tree', 0, c.conbin::text, 'a check of ' || c.conrelid::regclass FROM pg_constraint c
  WHERE c.conrelid = ANY ($1::oid[]) AND c.conbin IS NOT NULL
UNION ALL SELECT 'tree', 0, x, 'an index of ' || i.indrelid::regclass FROM pg_index i,
  unnest(ARRAY[i.indexprs::text, i.indpred::text]) x WHERE i.indrelid = ANY ($1::oid[]) AND x IS NOT NULL
UNION ALL SELECT 'function', a.amproc, NULL, 'an index of ' || i.indrelid::regclass FROM pg_index i,
  unnest(i.indclass) c JOIN pg_opclass o ON o.oid = c JOIN pg_amproc a ON a.amprocfamily = o.opcfamily
  WHERE i.indrelid = ANY ($1::oid[]) AND a.amproc::oid >= 16384
UNION ALL SELECT 'tree', 0, k.partexprs::text, 'the partitions of ' || k.partrelid::regclass
  FROM unnest($1::oid[]) w, pg_partition_ancestors(w) p JOIN pg_partitioned_table k ON k.partrelid = p
  WHERE k.partexprs IS NOT NULL
UNION ALL SELECT 'function', a.amproc::oid, NULL, 'the partitions of ' || k.partrelid::regclass
  FROM unnest($1::oid[]) w, pg_partition_ancestors(w) p JOIN pg_partitioned_table k ON k.partrelid = p,
  unnest(k.partclass) c JOIN pg_opclass o ON o.oid = c JOIN pg_amproc a ON a.amprocfamily = o.opcfamily
  WHERE a.amproc::oid >= 16384
UNION ALL SELECT 'function', m.amhandler::oid, NULL, 'the access method of ' || c.oid::regclass FROM pg_class c
  LEFT JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_am m ON m.oid = c.relam
  WHERE coalesce(i.indrelid, c.oid) = ANY ($1::oid[]) AND m.oid >= 16384
UNION ALL SELECT 'tree', 0, d.adbin::text, 'a computed column of ' || d.adrelid::regclass FROM pg_attrdef d
  JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  WHERE d.adrelid = ANY ($1::oid[]) AND a.attgenerated = 'v'
UNION ALL SELECT 'read', i.inhrelid, NULL, '' FROM pg_inherits i WHERE i.inhparent = ANY ($1::oid[])
"""
"""For tables that are read or written. The planner evaluates constant parts of their indexes, checks, statistics and
partitions, so it calls functions in them.
"""
READ_SINCE_14: Final = """
SELECT 'tree', 0, s.stxexprs::text, 'the statistics ' || s.stxname || ' of ' || s.stxrelid::regclass
  FROM pg_statistic_ext s WHERE s.stxrelid = ANY ($1::oid[]) AND s.stxexprs IS NOT NULL
"""
VIEWS: Final = """
SELECT r.ev_class, r.ev_action::text FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE r.ev_class = ANY ($1::oid[]) AND r.ev_type = '1' AND c.relkind = 'v'
"""
WRITE: Final = """
SELECT 'tree', 0, x, 'a rule of ' || r.ev_class::regclass FROM pg_rewrite r,
  unnest(ARRAY[r.ev_action::text, r.ev_qual::text]) x
  WHERE r.ev_class = ANY ($1::oid[]) AND r.ev_type <> '1' AND x IS NOT NULL
UNION ALL SELECT 'function', t.tgfoid, NULL, 'a trigger of ' || t.tgrelid::regclass FROM pg_trigger t
  JOIN pg_proc p ON p.oid = t.tgfoid
  WHERE t.tgrelid = ANY ($1::oid[]) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
  AND NOT (p.pronamespace = pg_my_temp_schema() AND p.proname LIKE 'remit\\_keep\\_%')
UNION ALL SELECT 'tree', 0, t.tgqual::text, 'a trigger of ' || t.tgrelid::regclass FROM pg_trigger t
  WHERE t.tgrelid = ANY ($1::oid[]) AND t.tgqual IS NOT NULL AND t.tgenabled <> 'D'
UNION ALL SELECT 'tree', 0, d.adbin::text, 'a computed column of ' || d.adrelid::regclass FROM pg_attrdef d
  JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  WHERE d.adrelid = ANY ($1::oid[]) AND a.attgenerated <> ''
UNION ALL SELECT 'operator', o, NULL, 'a constraint of ' || c.conrelid::regclass FROM pg_constraint c,
  unnest(c.conexclop) o WHERE c.conrelid = ANY ($1::oid[]) AND o >= 16384
UNION ALL SELECT 'operator', o, NULL, 'a foreign key of ' || c.conrelid::regclass FROM pg_constraint c,
  unnest(c.conpfeqop || c.conppeqop || c.conffeqop) o
  WHERE c.contype = 'f' AND (c.conrelid = ANY ($1::oid[]) OR c.confrelid = ANY ($1::oid[])) AND o >= 16384
UNION ALL SELECT 'function', k.castfunc, NULL, 'a foreign key of ' || c.conrelid::regclass FROM pg_constraint c,
  pg_cast k WHERE c.contype = 'f' AND (c.conrelid = ANY ($1::oid[]) OR c.confrelid = ANY ($1::oid[]))
  AND k.oid >= 16384 AND k.castmethod = 'f' AND EXISTS (SELECT FROM pg_operator p
    WHERE p.oid = ANY (c.conpfeqop || c.conppeqop || c.conffeqop) AND k.casttarget IN (p.oprleft, p.oprright))
  AND EXISTS (SELECT FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE ((a.attrelid = c.conrelid AND a.attnum = ANY (c.conkey))
      OR (a.attrelid = c.confrelid AND a.attnum = ANY (c.confkey)))
    AND (a.atttypid = k.castsource OR t.typtype = 'd'))
UNION ALL SELECT 'type', a.atttypid, NULL, 'a column of ' || a.attrelid::regclass FROM pg_attribute a
  WHERE a.attrelid = ANY ($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
UNION ALL SELECT 'tree', 0, p.polwithcheck::text, 'a row policy of ' || p.polrelid::regclass FROM pg_policy p
  WHERE p.polrelid = ANY ($1::oid[]) AND p.polwithcheck IS NOT NULL
UNION ALL SELECT 'write', i.inhrelid, NULL, '' FROM pg_inherits i WHERE i.inhparent = ANY ($1::oid[])
UNION ALL SELECT 'write', c.conrelid, NULL, '' FROM pg_constraint c WHERE c.contype = 'f'
  AND c.confrelid = ANY ($1::oid[]) AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
UNION ALL SELECT 'default', c.conrelid, NULL, '' FROM pg_constraint c WHERE c.contype = 'f'
  AND c.confrelid = ANY ($1::oid[]) AND 'd' IN (c.confdeltype, c.confupdtype)
UNION ALL SELECT 'read', c.conrelid, NULL, '' FROM pg_constraint c WHERE c.contype = 'f'
  AND c.confrelid = ANY ($1::oid[])
UNION ALL SELECT 'parent', c.confrelid, NULL, '' FROM pg_constraint c WHERE c.contype = 'f'
  AND c.conrelid = ANY ($1::oid[])
"""
REFERRING: Final = """
SELECT c.conrelid FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = ANY ($1::oid[])
"""
DEFAULTS: Final = """
SELECT d.adrelid, d.adnum, d.adbin::text, 'a default of ' || d.adrelid::regclass,
  (SELECT array_to_string(array_agg(x.refobjid), ' ') FROM pg_depend x JOIN pg_class s ON s.oid = x.refobjid
   WHERE x.classid = 'pg_attrdef'::regclass AND x.objid = d.oid AND x.refclassid = 'pg_class'::regclass
   AND s.relkind = 'S')
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE d.adrelid = ANY ($1::oid[]) AND a.attgenerated = ''
UNION ALL SELECT a.attrelid, a.attnum, NULL, 'a default of ' || a.attrelid::regclass, d.objid::text
FROM pg_attribute a JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype = 'i'
WHERE a.attrelid = ANY ($1::oid[]) AND a.attidentity <> ''
"""
FUNCTIONS: Final = """
SELECT p.oid, p.proname, n.nspname, p.oid::regprocedure::text, p.provolatile,
  (SELECT e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
   WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' LIMIT 1),
  p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = ANY ($1::oid[])
"""
ALL_OF_USERS: Final = "SELECT oid FROM pg_proc WHERE oid >= 16384 ORDER BY oid LIMIT 10000"
SYSTEM: Final = """
SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = ANY ($1::oid[]) AND (c.oid < 16384 OR c.relnamespace IN
  (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema', 'pg_toast')))
"""
JSON_CASTS: Final = """
SELECT castfunc FROM pg_cast WHERE oid >= 16384 AND castmethod = 'f'
AND casttarget IN ('json'::regtype, 'jsonb'::regtype)
"""
EVENTS: Final = """
SELECT e.evtname, p.oid FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid WHERE e.evtenabled <> 'D'
AND e.evtevent IN ('ddl_command_start', 'ddl_command_end', 'sql_drop', 'table_rewrite')
AND ($1::text IS NULL OR e.evttags IS NULL OR $1 = ANY (e.evttags))
"""
BY_NAME: Final = """
SELECT 'function', oid FROM pg_proc
  WHERE (oid >= 16384 AND proname = ANY ($1::name[])) OR (oid < 16384 AND proname = ANY ($2::name[]))
UNION ALL SELECT 'type', oid FROM pg_type WHERE oid >= 16384 AND typname = ANY ($1::name[])
UNION ALL SELECT 'read', oid FROM pg_class WHERE relname = ANY ($1::name[]) AND relkind IN ('r', 'p', 'v', 'm', 'f')
UNION ALL SELECT 'function', a.amproc::oid FROM pg_opclass o JOIN pg_amproc a ON a.amprocfamily = o.opcfamily
  WHERE o.opcname = ANY ($1::name[]) AND a.amproc::oid >= 16384
"""
CASTS: Final = """
SELECT castfunc, 'a cast to ' || casttarget::regtype FROM pg_cast WHERE oid >= 16384 AND castmethod = 'f'
"""
CLASSES: Final = """
SELECT a.amproc::oid, 'an operator class of ' || a.amproclefttype::regtype FROM pg_amproc a
JOIN pg_opfamily f ON f.oid = a.amprocfamily JOIN pg_am m ON m.oid = f.opfmethod
WHERE a.amproc::oid >= 16384 AND m.amname IN ('btree', 'hash')
"""
CLASSES_OF_BUILT_IN: Final = """
SELECT a.amproc::oid, 'an operator class of ' || o.opcintype::regtype FROM pg_opclass o
JOIN pg_am m ON m.oid = o.opcmethod JOIN pg_amproc a ON a.amprocfamily = o.opcfamily
WHERE o.oid >= 16384 AND o.opcdefault AND o.opcintype < 16384 AND a.amproc::oid >= 16384
  AND m.amname IN ('btree', 'hash')
"""
"""Default operator classes of built-in types. A parse tree is not searched for the numbers of these types."""
OF_TYPES: Final = """
SELECT 'alter', c.oid FROM pg_class c JOIN pg_type t ON t.oid = c.reloftype WHERE t.typname = ANY ($1::name[])
UNION SELECT 'write', a.attrelid FROM pg_attribute a JOIN pg_type t ON a.atttypid IN (t.oid, t.typarray)
  JOIN pg_class c ON c.oid = a.attrelid
  WHERE t.oid >= 16384 AND t.typname = ANY ($1::name[]) AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'm')
"""
"""Tables that ALTER TYPE changes as well: tables of this type, and tables with a column of it."""
FIRST_TYPES: Final = """
SELECT DISTINCT x FROM (
  SELECT unnest(ARRAY[oid, typarray]) FROM pg_type WHERE typname = ANY ($1::name[])
  UNION ALL SELECT a.atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relname = ANY ($1::name[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
  UNION ALL SELECT unnest(proargtypes::oid[] || proallargtypes || prorettype) FROM pg_proc
    WHERE proname = ANY ($1::name[]) AND oid >= 16384
  UNION ALL SELECT unnest(ARRAY[oprleft, oprright, oprresult]) FROM pg_operator WHERE oid >= 16384
) t(x) WHERE x >= 16384
"""
TYPE_NAMES: Final = """
SELECT t.oid, format('%I.%I', n.nspname, t.typname) FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid = ANY ($1::oid[])
"""
"""Always with the schema, because a temporary type with the same name would be found first."""
OPERATORS: Final = "SELECT oprname, oprcode::oid FROM pg_operator WHERE oid >= 16384"
ALTERED: Final = """
SELECT coalesce(i.indrelid, c.oid) FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE c.relname = ANY ($1::name[]) AND c.relkind IN ('r', 'p', 'i', 'I') AND c.oid >= 16384
"""
NAMES: Final = """
SELECT c.oid, n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY ($1::oid[]) AND c.oid >= 16384 ORDER BY 2
"""
