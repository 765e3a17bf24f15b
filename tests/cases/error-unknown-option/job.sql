CREATE TABLE clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${in}', 'format' = 'json');
CREATE TABLE plain (u STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/plain', 'format' = 'json');
CREATE TABLE k (a INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/none', 'format' = 'json', 'json.fail-on-mising-field' = 'true');
INSERT INTO plain SELECT 'x', a FROM k;
