CREATE TABLE clicks (
  u STRING,
  v INT
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/clicks.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  n BIGINT,
  users STRING,
  user_list ARRAY<STRING>,
  newest STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'debezium-json'
);

INSERT INTO results
SELECT n, LISTAGG(u), ARRAY_AGG(u), LAST_VALUE(u)
FROM (SELECT u, COUNT(*) AS n FROM clicks GROUP BY u) AS counted
GROUP BY n;
