CREATE TABLE clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${in}', 'format' = 'json');
CREATE TABLE plain (u STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/plain', 'format' = 'json');
CREATE TABLE raw_clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = '${in}', 'format' = 'json');
INSERT INTO plain SELECT u, COUNT(*) FROM TABLE(
  TUMBLE(TABLE raw_clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY u, window_start, window_end;
