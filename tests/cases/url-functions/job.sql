CREATE TABLE t (
  id INT,
  s STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${in}/t.ndjson',
  'format' = 'json'${throttle}
);

CREATE TABLE results (
  id INT,
  host STRING,
  path STRING,
  q STRING,
  qk STRING,
  proto STRING,
  fragment STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, PARSE_URL(s, 'HOST'), PARSE_URL(s, 'PATH'), PARSE_URL(s, 'QUERY'), PARSE_URL(s, 'QUERY', 'k1'), PARSE_URL(s, 'PROTOCOL'), PARSE_URL(s, 'REF') FROM t;
