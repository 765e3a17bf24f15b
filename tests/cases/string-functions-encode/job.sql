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
  b64 STRING, unb64 STRING, ue STRING, ud STRING, h STRING, md STRING, s1 STRING, s256 STRING, s2 STRING,
  jq STRING, ju STRING, alpha BOOLEAN, dgt BOOLEAN, dcm BOOLEAN, raw_bytes BYTES, back STRING
) WITH (
  'connector' = 'filesystem',
  'path' = '${out}/results',
  'format' = 'json'
);

INSERT INTO results
SELECT id, TO_BASE64(s), FROM_BASE64(TO_BASE64(s)), URL_ENCODE(s), URL_DECODE(URL_ENCODE(s)), HEX(s),
  MD5(s), SHA1(s), SHA256(s), SHA2(s, 512), CASE WHEN id NOT IN (3, 4, 5, 14) THEN JSON_QUOTE(s) END, CASE WHEN id NOT IN (3, 4, 5, 14) THEN JSON_UNQUOTE(JSON_QUOTE(s)) END,
  IS_ALPHA(s), IS_DIGIT(s), IS_DECIMAL(s), ENCODE(s, 'UTF-8'), DECODE(ENCODE(s, 'UTF-8'), 'UTF-8')
FROM t;
