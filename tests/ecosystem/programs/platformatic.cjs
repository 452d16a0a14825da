// @platformatic/kafka: a producer, groups of both protocols, and what administrators ask for.
//   node platformatic.cjs FOLDER_WITH_NODE_MODULES HOST:PORT NAME
const { createRequire } = require('node:module')
const { pathToFileURL } = require('node:url')
const [folder, address, name] = process.argv.slice(2)
const login = require('./login.cjs').platformatic
const { step, tell } = require('./steps.cjs')
const topic = `${name}-topic`
const group = `${name}-group`
const sum = (partitions, field) => partitions.reduce((total, each) => total + Number(each[field]), 0)

async function records (platformatic, common) {
  const { Producer, Consumer, stringSerializers, stringDeserializers, MessagesStreamModes } = platformatic
  const producer = new Producer({ ...common, serializers: stringSerializers, idempotent: true })
  const messages = Array.from({ length: 1000 }, (_, each) => ({ topic, key: `k${each}`, value: `v${each}`, headers: { h: 'x' } }))
  await step('send', () => producer.send({ messages, compression: 'gzip' }))
  await producer.close()
  for (const groupProtocol of ['classic', 'consumer']) {
    await step(`a group reads, ${groupProtocol}`, async () => {
      const consumer = new Consumer({ ...common, groupId: `${group}-${groupProtocol}`, groupProtocol, deserializers: stringDeserializers })
      const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST, autocommit: false })
      const read = []
      let last
      for await (const message of stream) {
        read.push(message.value)
        last = message
        if (read.length === messages.length) break
      }
      await last.commit()
      await consumer.close(true)
      return read
    }, read => new Set(read).size === messages.length)
  }
}

async function administration (platformatic, common) {
  const admin = new platformatic.Admin(common)
  const resource = { resourceType: 2, resourceName: topic }
  const acl = { ...resource, patternType: 3, resourcePatternType: 3, principal: 'User:a', host: '*', operation: 3, permissionType: 3 }
  const filter = { resourceType: 1, resourceName: null, patternType: 1, resourcePatternType: 1, resourcePatternTypeFilter: 1, principal: 'User:a', host: null, operation: 1, permissionType: 1 }
  const user = [{ entityType: 'user', entityName: 'a' }]
  await step('listTopics', () => admin.listTopics(), said => said.includes(topic))
  await step('createPartitions', () => admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] }))
  await step('listGroups', () => admin.listGroups({ types: ['classic', 'consumer'] }), said => said.has(`${group}-classic`) && said.has(`${group}-consumer`))
  await step('describeGroups', () => admin.describeGroups({ groups: [`${group}-classic`] }))
  await step('findCoordinator', () => admin.findCoordinator({ keyType: 0, keys: [group] }), said => said[0].nodeId === 1)
  await step('listConsumerGroupOffsets', () => admin.listConsumerGroupOffsets({ groups: [`${group}-classic`] }))
  await step('describeLogDirs', () => admin.describeLogDirs({ topics: [{ name: topic, partitions: [0] }] }))
  await step('listOffsets', () => admin.listOffsets({ topics: [{ name: topic, partitions: [0, 1, 2].map(each => ({ partitionIndex: each, timestamp: -1n })) }] }),
    said => sum(said[0].partitions, 'offset') === 1000)
  await step('deleteRecords', () => admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 1n }] }] }))
  await step('describeConfigs', () => admin.describeConfigs({ resources: [{ ...resource, configurationKeys: null }] }))
  await step('incrementalAlterConfigs', () => admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation: 0, value: '123456' }] }] }))
  await step('alterConfigs', () => admin.alterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', value: '123456' }] }] }))
  await step('describeClientQuotas', () => admin.describeClientQuotas({ components: [], strict: false }), said => said.length === 0)
  await step('alterClientQuotas, set', () => admin.alterClientQuotas({ validateOnly: true, entries: [{ entities: user, ops: [{ key: 'producer_byte_rate', value: 1000, remove: false }] }] }))
  await step('alterClientQuotas, remove', () => admin.alterClientQuotas({ entries: [{ entities: user, ops: [{ key: 'producer_byte_rate', value: 0, remove: true }] }] }))
  await step('createAcls', () => admin.createAcls({ creations: [acl] }))
  await step('describeAcls', () => admin.describeAcls({ filter }))
  await step('deleteAcls', () => admin.deleteAcls({ filters: [filter] }))
  await step('deleteGroups', () => admin.deleteGroups({ groups: [`${group}-classic`, `${group}-consumer`] }))
  await step('deleteTopics', () => admin.deleteTopics({ topics: [topic] }))
  await admin.close()
}

(async () => {
  const entry = createRequire(`${folder}/`).resolve('@platformatic/kafka')
  const platformatic = await import(pathToFileURL(entry))
  const common = { clientId: name, bootstrapBrokers: [address], timeout: 60000, ...login }
  const admin = new platformatic.Admin(common)
  await step('createTopics', () => admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 }))
  await admin.close()
  await records(platformatic, common)
  await administration(platformatic, common)
  tell()
})()
