CREATE TABLE clicks (
  u STRING,
  v INT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${in}', 'format' = 'json');
CREATE TABLE plain (u STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/plain', 'format' = 'json');
INSERT INTO plain SELECT u, 1 FROM clicks WHERE v = 1 GRUOP BY u;
