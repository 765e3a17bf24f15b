-- A stream without an end: sensor readings made up as they are due, 50 a second, counted and
-- averaged per sensor every five seconds. For trying what needs a running job: metrics,
-- savepoints, stopping and starting, changing the parallelism.

CREATE TABLE readings (
  sensor INT,
  temperature DOUBLE,
  at AS PROCTIME()
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '50',
  'fields.sensor.min' = '1',
  'fields.sensor.max' = '5',
  'fields.temperature.min' = '15',
  'fields.temperature.max' = '30'
);

CREATE TABLE averages (
  window_start TIMESTAMP(3),
  sensor INT,
  readings BIGINT,
  mean DOUBLE
) WITH ('connector' = 'print');

INSERT INTO averages
SELECT window_start, sensor, COUNT(*), ROUND(AVG(temperature), 1)
FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '5' SECOND))
GROUP BY window_start, window_end, sensor;
