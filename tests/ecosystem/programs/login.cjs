// How a program here logs in: by SCRAM over TLS if APP_LOGIN says who, else not at all.
const { readFileSync } = require('node:fs')
const told = JSON.parse(process.env.APP_LOGIN ?? 'null')
const ca = told && [readFileSync(told.ca, 'utf8')]

// What the three clients are given: they differ in the names.
exports.kafkajs = told ? { ssl: { ca }, sasl: { mechanism: 'scram-sha-512', username: told.user, password: told.password } } : {}
exports.platformatic = told ? { tls: { ca }, sasl: { mechanism: 'SCRAM-SHA-512', username: told.user, password: told.password } } : {}
exports.librdkafka = told ? { 'security.protocol': 'sasl_ssl', 'sasl.mechanism': 'SCRAM-SHA-512', 'sasl.username': told.user, 'sasl.password': told.password, 'ssl.ca.location': told.ca } : {}
