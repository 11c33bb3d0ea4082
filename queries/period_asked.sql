-- What:       How many requests of a period each predicate selects, one column for each
-- Parameters: $counts     `count(*) filter (where …)` for each predicate, an SQL expression over `request`
--             start, end  the period in microseconds since the epoch, the end not included; they come after the predicates'
-- Example:    replace $counts by count(*), the first ? by 0 and the second by 4102444800000000
select $counts from request where epoch_us(stage_time) >= ? and epoch_us(stage_time) < ?
