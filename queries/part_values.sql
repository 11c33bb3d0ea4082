-- What:       the values that an expression has in the rows of some parts that a predicate selects, each once
-- Parameters: $expression  an SQL expression over the columns of `request`
--             $predicate   another one, which is true or false
--             the variable store_rows, as `open.sql` of each store sets it
-- Example:    replace $expression by: username, and $predicate by: verb = 'create'
select distinct $expression
from read_parquet(getvariable('store_rows'), hive_partitioning = false)
where reject is null and $predicate
