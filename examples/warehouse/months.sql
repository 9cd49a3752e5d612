-- One row for each carrier of the month, from the days that `delays` publishes. Refrain runs this in one transaction that
-- sees one moment of the database; "REFRAIN_STAGING" is the staging table, :date_start and :date_end are the month's ends.

INSERT INTO "REFRAIN_STAGING" (month, carrier, flights, cancelled, mean_dep_delay)
SELECT :date_start::date, carrier, count(*), count(*) FILTER (WHERE dep_delay IS NULL), avg(dep_delay)
FROM public.delays
WHERE dt >= :date_start::date AND dt < :date_end::date
GROUP BY carrier;
