-- Flights out of New York's three airports in January 2013, in the order in which they really
-- left. The event time is the scheduled departure, so rows come out of order: half of them
-- within a minute of the newest, one in a hundred more than 2 h 40 min behind it, the last
-- 21 h 40 min. The watermark waits 4 hours; the few flights (43 of 27,004 if every row moved
-- the watermark) that come after their hour's result are late: counted, shown, not added.
--
-- Run it from the root of the repository:  millrace run examples/flights.sql

CREATE TABLE flights (
  sched_dep TIMESTAMP(3),
  actual_dep TIMESTAMP(3),
  carrier STRING,
  flight INT,
  tailnum STRING,
  origin STRING,
  dest STRING,
  dep_delay INT,
  arr_delay INT,
  distance INT,
  air_time INT,
  cancelled BOOLEAN,
  WATERMARK FOR sched_dep AS sched_dep - INTERVAL '4' HOUR
) WITH (
  'connector' = 'filesystem',
  'path' = 'examples/data/flights-2013-01.ndjson.gz',
  'format' = 'json'
);

CREATE TABLE hourly_departures (
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  origin STRING,
  departures BIGINT,
  cancelled BIGINT,
  avg_delay DOUBLE,
  max_delay INT
) WITH (
  'connector' = 'print'
);

-- Delays are in minutes; flights that left early count with a negative one.
INSERT INTO hourly_departures
SELECT
  window_start,
  window_end,
  origin,
  COUNT(*) FILTER (WHERE NOT cancelled) AS departures,
  COUNT(*) FILTER (WHERE cancelled) AS cancelled,
  ROUND(AVG(CAST(dep_delay AS DOUBLE)), 1) AS avg_delay,
  MAX(dep_delay) AS max_delay
FROM TABLE(
  TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR))
GROUP BY window_start, window_end, origin;
